// Small pieces that several views are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";

/** The time, often enough for "5 min". */
export const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 15_000);

const PATHS = {
  menu: "M4 6h16M4 12h16M4 18h16",
  back: "M15 5l-7 7 7 7",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16.5 16.5L21 21",
  plus: "M12 5v14M5 12h14",
  tree: "M6 4v10M6 14a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM18 5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM18 10c0 4-6 4-11 5",
  gauge: "M4 18a9 9 0 1 1 16 0M12 14l4-5",
  chart: "M4 20V10M10 20V4M16 20v-7M22 20H2",
  more: "M5 11.5h.01v1h-.01zM12 11.5h.01v1h-.01zM19 11.5h.01v1h-.01z",
  send: "M5 12h13M12 5l7 7-7 7",
  stop: "M7 7h10v10H7z",
  pin: "M9 4h6l-1 6 3 3v2H7v-2l3-3-1-6zM12 15v6",
  close: "M6 6l12 12M18 6L6 18",
  eye: "M2 12s4-7 10-7 10 7 10 7-4 7-10 7S2 12 2 12zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5",
  filter: "M4 5h16l-6 8v5l-4 2v-7z",
  down: "M12 5v14M5 13l7 7 7-7",
  keys: "M3 7h18v10H3zM7 11h.01M11 11h.01M15 11h.01M8 14h8",
  out: "M15 12H4M10 6l-6 6 6 6M14 4h6v16h-6",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { name: IconName }) => (
  <svg class="icon" viewBox="0 0 24 24" width="18" height="18" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);

export interface ButtonProps {
  icon: IconName;
  label: string;
  keys?: string;
  pressed?: boolean;
  disabled?: boolean;
  testid?: string;
  onClick: () => void;
}

/** A button that is only a picture; its name is told to whoever cannot see it, and its shortcut to everybody. */
export const IconButton = ({ icon, label, keys, pressed, disabled, testid, onClick }: ButtonProps) => (
  <button
    type="button"
    class="icon-button"
    aria-label={label}
    title={keys ? `${label} (${keys})` : label}
    aria-keyshortcuts={keys}
    aria-pressed={pressed}
    disabled={disabled}
    data-testid={testid}
    onClick={onClick}
  >
    <Icon name={icon} />
  </button>
);

export const Dialog = ({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const pressed = useRef<EventTarget | null>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    // What was pressed inside and let go of outside, as when words are selected, closes nothing.
    <dialog
      ref={dialog}
      aria-label={title}
      onClose={close}
      onPointerDown={(event) => (pressed.current = event.target)}
      onClick={(event) => event.target === dialog.current && pressed.current === dialog.current && close()}
    >
      <div class="dialog">
        <header>
          <h2>{title}</h2>
          <IconButton icon="close" label="Close" onClick={close} />
        </header>
        {children}
      </div>
    </dialog>
  );
};

/** Asks for a few words. */
export interface Question {
  title: string;
  label: string;
  value?: string;
  hint?: string;
  action: string;
  /** Whether no words are an answer, too. */
  mayBeEmpty?: boolean;
  then: (answer: string) => void;
}
export const question = signal<Question | null>(null);

export const Questions = () => {
  const asked = question.value;
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), [asked]);
  if (!asked) return null;
  const close = () => {
    question.value = null;
  };
  const submit = (event: Event) => {
    event.preventDefault();
    const answer = field.current?.value.trim() ?? "";
    if (!answer && !asked.mayBeEmpty) return;
    close();
    asked.then(answer);
  };
  return (
    <Dialog title={asked.title} close={close} key={asked.title}>
      <form onSubmit={submit}>
        <label>
          {asked.label}
          <input ref={field} name="answer" defaultValue={asked.value ?? ""} autocomplete="off" maxLength={200} />
        </label>
        {asked.hint && <p class="hint">{asked.hint}</p>}
        <div class="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="main">
            {asked.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
};

export const Spinner = ({ label }: { label: string }) => (
  <div class="spinner" role="status">
    <span class="dots" aria-hidden="true" />
    {label}
  </div>
);
