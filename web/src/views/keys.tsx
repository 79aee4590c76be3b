// The shortcuts, in one table that both acts and is shown.
import { signal } from "@preact/signals";
import { go, toggle, uncover } from "../route";
import { browser } from "../store";
import { turn } from "../theme";
import { Dialog, question } from "../ui";

export const isHelping = signal(false);
/** Whether single keys do something: for whoever speaks to the computer, or has them otherwise, they can be turned off. */
const isOn = signal(true);
const read = (): void => {
  isOn.value = browser.read("keys") !== "off";
};

const focus = (id: string): void => document.getElementById(id)?.focus();
const jump = (where: string): boolean => window.dispatchEvent(new CustomEvent("jump", { detail: where }));
const row = (): void => document.querySelector<HTMLElement>(".sessions a.row")?.focus();

export const KEYS: [string, string, () => void][] = [
  ["/", "Search what was said", () => focus("search")],
  ["n", "New conversation", () => go({ view: "new" })],
  ["s", "To the sessions (then j and k, or the arrows; Enter opens)", () => (matchMedia("(max-width: 760px)").matches ? go({ view: "sessions" }) : undefined, row())],
  ["i", "To the prompt", () => focus("prompt")],
  ["t", "Branches", () => toggle("tree")],
  ["c", "Context", () => toggle("context")],
  ["a", "About this session", () => toggle("about")],
  ["u", "Usage", () => go({ view: "usage" })],
  ["[", "To what you said before", () => jump("last")],
  ["]", "To what you said next", () => jump("next")],
  ["Home", "To the beginning of the conversation", () => jump("start")],
  ["End", "To its end", () => jump("end")],
  ["d", "Dark, light, or as the system is", turn],
  ["?", "These shortcuts", () => (isHelping.value = true)],
];

addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement | null;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || question.value || isHelping.value) return;
  read();
  if (!isOn.value && event.key !== "Escape") return;
  if (target?.closest("input, textarea, select, dialog, [contenteditable]")) return;
  if (event.key === "Escape") {
    uncover();
    return;
  }
  const found = KEYS.find(([key]) => key === event.key);
  if (!found) return;
  event.preventDefault();
  found[2]();
});

export const Help = () =>
  isHelping.value ? (
    <Dialog title="Shortcuts" close={() => (isHelping.value = false)}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </>
        ))}
        <dt>
          <kbd>Enter</kbd>
        </dt>
        <dd>Send; with Shift a new line; ArrowUp in an empty box: what was said before</dd>
        <dt>
          <kbd>Esc</kbd>
        </dt>
        <dd>Abort an answer from the prompt; close what is open</dd>
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked={isOn.value}
          onChange={(event) => {
            browser.write("keys", event.currentTarget.checked ? "" : "off");
            read();
          }}
        />{" "}
        Single keys do these things
      </label>
    </Dialog>
  ) : null;
