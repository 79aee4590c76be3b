// Who is asking: a link that works once, or a token. The browser keeps what it is given where no script can read it.
import { useRef, useState } from "preact/hooks";
import * as api from "../api";

export const Login = ({ then, refused }: { then: () => void; refused: string | null }) => {
  const token = useRef<HTMLInputElement>(null);
  const stay = useRef<HTMLInputElement>(null);
  const [why, tell] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    const field = token.current;
    const words = field?.value.trim() ?? "";
    if (!field || !words) return;
    setBusy(true);
    tell(null);
    try {
      await api.login(words, stay.current?.checked ?? false);
      field.value = "";
      then();
    } catch (error) {
      tell(error instanceof api.Problem && error.status === 401 ? "This token is not known here." : error instanceof Error ? error.message : String(error));
      field.select();
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="login" aria-label="Log in">
      <form onSubmit={(event) => void submit(event)}>
        <h1>unforget</h1>
        <p>
          On your own machine, open the link that “unforget serve” printed. It works once; <code>unforget serve --link</code> prints another.
        </p>
        <p>If you were given a token, or have the one in the file “server/owner.token” of your home, paste it here.</p>
        <label>
          Token
          <input ref={token} type="password" name="token" autocomplete="current-password" autofocus required />
        </label>
        <label class="check">
          <input ref={stay} type="checkbox" /> Stay logged in on this device for 30 days
        </label>
        {(why ?? refused) && (
          <p class="problem" role="alert">
            {why ?? refused}
          </p>
        )}
        <button type="submit" class="main" disabled={isBusy}>
          Log in
        </button>
      </form>
    </main>
  );
};
