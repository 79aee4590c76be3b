// What a test began is ended in the reverse order: pages before the server that they talk to, the server before its folder.

const stacks = new WeakMap();

/** Does something when the test ends, before everything that was said earlier. The first problem is the test's; the rest is ended all the same. */
export function atEnd(t, end) {
  const known = stacks.get(t);
  if (known) return void known.push(end);
  const stack = [end];
  stacks.set(t, stack);
  t.after(async () => {
    const problems = [];
    for (const one of stack.reverse()) {
      try {
        await one();
      } catch (error) {
        problems.push(error);
      }
    }
    if (problems.length > 0) throw problems[0];
  });
}
