/**
 * Lines out of the pieces in which they come.
 *
 * A line may have 100 megabytes and come in thousands of pieces: each piece is looked through once and copied once.
 */

const LINE_FEED = 0x0a;

/** Puts lines together. */
export class Lines {
  #pieces: Buffer[] = [];

  /** Takes the next piece, and hands on every line that ends in it, without its line feed. */
  feed(piece: Buffer, take: (line: string) => void): void {
    let start = 0;
    for (let end = piece.indexOf(LINE_FEED); end >= 0; end = piece.indexOf(LINE_FEED, start)) {
      take(this.#finish(piece.subarray(start, end)));
      start = end + 1;
    }
    if (start < piece.length) {
      this.#pieces.push(piece.subarray(start));
    }
  }

  /** What came behind the last line feed. */
  rest(): string {
    return this.#finish(Buffer.alloc(0));
  }

  #finish(last: Buffer): string {
    if (this.#pieces.length === 0) {
      return last.toString('utf8');
    }
    const line = Buffer.concat([...this.#pieces, last]).toString('utf8');
    this.#pieces = [];
    return line;
  }
}
