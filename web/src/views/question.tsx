// Whether a call may run. Whoever allows it has been shown all of it: nothing is cut off at the edge of the screen, folded away or hidden as a secret, because
// what a model wants to run may have been put into its mouth by somebody else.
import { useRef, useState } from "preact/hooks";
import { Code, given } from "../code";
import { hide } from "../mask";
import type { Call, Talk } from "../talk";
import { unmasked, visible } from "../text";

export const QuestionCard = ({ talk, call }: { talk: Talk; call: Call }) => {
  const reason = useRef<HTMLInputElement>(null);
  const [isSaid, say] = useState(false);
  const [isBare, bare] = useState(false);
  const parts = given(call.input);
  // Whatever stands behind the beginning of a key looks like one, also if it is a command.
  const isHidden = !isBare && !unmasked.value && parts.some((part) => hide(part.text).secrets.length > 0);
  const answer = (allow: boolean) => {
    say(true);
    talk.answer(call.id, allow, allow ? undefined : reason.current?.value.trim());
    // A connection that was lost meanwhile asks again.
    setTimeout(() => say(false), 3000);
  };
  return (
    <section class="question" aria-label={`May ${visible(call.name).slice(0, 80)} run?`} data-testid="question">
      <h3>May {visible(call.name).slice(0, 80)} run?</h3>
      {parts.map((part, index) => (
        <Code key={index} {...part} {...(isHidden ? {} : { secrets: [] })} isWhole />
      ))}
      {isHidden && (
        <p class="hint">
          Something in it looks like a secret and is hidden. Look at it before you allow it.{" "}
          <button type="button" class="small" onClick={() => bare(true)}>
            Show it
          </button>
        </p>
      )}
      <div class="actions">
        <input ref={reason} aria-label="Why not (optional)" placeholder="Why not (optional)" maxLength={500} />
        <button type="button" disabled={isSaid} onClick={() => answer(false)}>
          Deny
        </button>
        <button type="button" class="main" disabled={isSaid || isHidden} onClick={() => answer(true)}>
          Allow
        </button>
      </div>
    </section>
  );
};
