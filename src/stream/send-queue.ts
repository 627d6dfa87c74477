/** Frames that wait to be sent. They are not copied: many queues hold the same frames. */
export class SendQueue {
  readonly #frames: Buffer[] = [];

  push(frame: Buffer): void {
    this.#frames.push(frame);
  }

  /** Removes what comes next, at most so many bytes of it. */
  take(mostBytes: number): readonly Buffer[] {
    const taken: Buffer[] = [];
    let room = mostBytes;
    for (let next = this.#frames[0]; next !== undefined && room > 0; next = this.#frames[0]) {
      const isWhole = next.length <= room;
      taken.push(isWhole ? next : next.subarray(0, room));
      if (isWhole) this.#frames.shift();
      else this.#frames[0] = next.subarray(room);
      room -= next.length;
    }
    return taken;
  }
}
