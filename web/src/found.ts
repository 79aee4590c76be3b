// Where the words of a search stand in what is drawn. The browser paints them; no element is touched for it.

/** The words of a search, without its marks. */
const wordsOf = (question: string): string[] =>
  question
    .replace(/(^|\s)-("[^"]*"|\S+)/g, " ")
    .split(/"([^"]*)"|\s+/)
    .map((word) => (word ?? "").replace(/[*()]/g, "").trim().toLowerCase())
    .filter((word) => word !== "" && !["and", "or", "not"].includes(word));

/** How many places are painted at the most. */
const MOST = 500;

/** Paints the words within an element, and brings the first of them into view where it is in something that scrolls by itself. Says whether there are any. */
export const paint = (within: Element, question: string): boolean => {
  if (typeof Highlight === "undefined" || !CSS.highlights) return true;
  CSS.highlights.delete("found");
  const words = wordsOf(question);
  if (words.length === 0) return true;
  const ranges: Range[] = [];
  const walker = document.createTreeWalker(within, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && ranges.length < MOST; node = walker.nextNode()) {
    const text = (node.nodeValue ?? "").toLowerCase();
    // What grows when it is made small has its places elsewhere.
    if (text.length !== (node.nodeValue ?? "").length) continue;
    for (const word of words) {
      for (let at = text.indexOf(word); at >= 0 && ranges.length < MOST; at = text.indexOf(word, at + word.length)) {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + word.length);
        ranges.push(range);
      }
    }
  }
  if (ranges.length === 0) return false;
  CSS.highlights.set("found", new Highlight(...ranges));
  const first = ranges.find((range) => range.startContainer.parentElement?.closest(".plain, .code pre")) ?? ranges[0];
  const frame = first?.startContainer.parentElement?.closest(".plain, .code pre");
  if (first && frame) frame.scrollTop += first.getBoundingClientRect().top - frame.getBoundingClientRect().top - frame.clientHeight / 3;
  return true;
};
