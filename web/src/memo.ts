// A component that is drawn again only when what it is given is something else.
import { Component, createElement, type ComponentChildren, type FunctionComponent } from "preact";

export const memo = <P extends object>(draw: (props: P) => ComponentChildren): FunctionComponent<P> => {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const before = this.props as { [name: string]: unknown };
      const after = next as { [name: string]: unknown };
      const names = Object.keys(after);
      return names.length !== Object.keys(before).length || names.some((name) => before[name] !== after[name]);
    }
    override render(): ComponentChildren {
      return createElement(draw as FunctionComponent<P>, this.props as P);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
};
