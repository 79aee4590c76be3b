// What the browser keeps of somebody: apart by who they are, so that whoever uses the same browser next sees nothing of it.

let who = "";
export const setActor = (actor: string): void => {
  who = actor;
};

const key = (name: string): string => `${who}/${name}`;

/** A browser that keeps nothing is one that forgets when the page is closed. */
const attempt = <T>(work: () => T, otherwise: T): T => {
  try {
    return work();
  } catch {
    return otherwise;
  }
};

const box = (of: () => Storage) => ({
  read: (name: string): string | null => attempt(() => of().getItem(key(name)), null),
  /** Says whether it was kept. */
  write: (name: string, text: string): boolean =>
    attempt(() => {
      if (text === "") of().removeItem(key(name));
      else of().setItem(key(name), text);
      return true;
    }, false),
});

/** For as long as the tab is open. */
export const tab = box(() => sessionStorage);
/** For as long as the browser keeps it. */
export const browser = box(() => localStorage);

/** Lets go of everything that was typed here. */
export const forget = (): void => {
  attempt(() => sessionStorage.clear(), undefined);
  browser.write("past", "");
};
