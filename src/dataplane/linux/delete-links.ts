import { randomInt } from 'node:crypto';
import type { Addon } from './addon.ts';
import { deleteLink, deleteLinkGroup, setLinkGroup } from './link-messages.ts';
import { RouteSocket, refusal } from './route-socket.ts';

const ENODEV = 19;
/** Users and other programs use small group numbers; netplug draws random ones far above. */
const GROUPS = { from: 2 ** 30, below: 2 ** 31 } as const;

interface Waiting {
  readonly index: number;
  readonly name: string;
  readonly resolve: () => void;
  readonly reject: (cause: unknown) => void;
}

/**
 * Deletes links off the main thread. The kernel sleeps for tens of milliseconds per deletion, but only once for a group
 * of links, so links requested while a deletion runs are deleted together in the next one. A link that does not exist
 * counts as deleted.
 */
export class LinkDeleter {
  readonly #addon: Addon;
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(addon: Addon) {
    this.#addon = addon;
  }

  /** @throws kernel/failed */
  async delete({ index, name }: { readonly index: number; readonly name: string }): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push({ index, name, resolve, reject });
      if (!this.#isRunning) void this.#run();
    });
  }

  /** Never rejects: every failure rejects the calls that wait for it. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    // Lets the other callers of this turn of the event loop join the first round.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const round = this.#waiting;
      this.#waiting = [];
      try {
        using socket = RouteSocket.open(this.#addon);
        await deleteRound(socket, round);
      } catch (cause) {
        for (const { reject } of round) reject(cause);
      }
    }
    this.#isRunning = false;
  }
}

async function deleteRound(socket: RouteSocket, round: readonly Waiting[]): Promise<void> {
  if (round.length > 1 && (await deletedAsGroup(socket, round))) {
    for (const { resolve } of round) resolve();
    return;
  }
  for (const { index, name, resolve, reject } of round) {
    const [reply] = await socket.askOnWorker([deleteLink(index)]);
    if (reply.errno === 0 || reply.errno === ENODEV) resolve();
    else reject(refusal(`delete interface "${name}"`, reply));
  }
}

/** Deletes all links as a group. Returns false on any failure; deleting them one by one then finds the cause. */
async function deletedAsGroup(socket: RouteSocket, round: readonly Waiting[]): Promise<boolean> {
  const group = randomInt(GROUPS.from, GROUPS.below);
  const [first, ...rest] = round.map(({ index }) => setLinkGroup(index, group));
  if (first === undefined) return true;
  const replies = await socket.askOnWorker([first, ...rest, deleteLinkGroup(group)]);
  return replies.every(({ errno }) => errno === 0 || errno === ENODEV);
}
