import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { timeLimit } from '../../base/clock.ts';
import { NetplugError, errnoOf } from '../../base/errors.ts';
import { type ExecResult, exec } from '../../base/exec.ts';
import type { NftTable, PacketFilter } from '../packet-filter.ts';
import { replacementBatch } from './nft-batch.ts';
import { readListing } from './nft-listing.ts';

export interface NftOptions {
  /** Found in PATH, or a path. */
  readonly program?: string;
  /** What nft is to read is written here for a moment. */
  readonly folder?: string;
}

/** A program that takes longer hangs. */
const RUN_MS = 20_000;

/** What a filter left behind: what was wanted, and how nft printed the table right after. */
interface Left {
  readonly wanted: string;
  readonly printed: string;
}

/** nftables of the network namespace the process is in, by the program `nft`. */
export class NftPacketFilter implements PacketFilter {
  readonly #program: string;
  readonly #folder: string;
  readonly #left = new Map<string, Left>();

  constructor({ program = 'nft', folder = tmpdir() }: NftOptions = {}) {
    this.#program = program;
    this.#folder = folder;
  }

  async replace(table: NftTable, signal: AbortSignal): Promise<'unchanged' | 'changed'> {
    const { name, objects, onlyIfThere = objects.length === 0 } = table;
    const printed = await this.#print(name, signal);
    const wanted = JSON.stringify(objects);
    if (printed === undefined ? onlyIfThere : this.#isAsLeft(name, wanted, printed)) return 'unchanged';
    this.#left.delete(name);
    // Without what sets hold, which may be thousands of elements, and is replaced anyway.
    const listing = printed === undefined ? undefined : await this.#print(name, signal, '--terse');
    const batch = replacementBatch(table, listing === undefined ? [] : readListing(listing));
    const applied = await this.#apply(batch, signal);
    if (applied.status !== 0) throw nftFailure(`replace the nftables table "${name}"`, applied);
    const after = await this.#print(name, signal);
    if (after !== undefined) this.#left.set(name, { wanted, printed: after });
    return 'changed';
  }

  async has(name: string, signal: AbortSignal): Promise<boolean> {
    return (await this.#print(name, signal, '--terse')) !== undefined;
  }

  #isAsLeft(name: string, wanted: string, printed: string): boolean {
    const left = this.#left.get(name);
    if (left?.wanted !== wanted) return false;
    // Usually not even the order of elements is another one, and nothing has to be parsed.
    if (left.printed === printed) return true;
    const isSame = JSON.stringify(readListing(left.printed)) === JSON.stringify(readListing(printed));
    if (isSame) this.#left.set(name, { wanted, printed });
    return isSame;
  }

  /** The table as JSON; undefined when there is none of that name. */
  async #print(name: string, signal: AbortSignal, ...options: readonly '--terse'[]): Promise<string | undefined> {
    const listed = await this.#run([...options, 'list', 'table', 'inet', name], signal);
    if (listed.status === 0) return listed.stdout;
    if (listed.stderr.includes('No such file or directory')) return undefined;
    throw nftFailure(`read the nftables table "${name}"`, listed);
  }

  /** By a file: nft opens /dev/stdin by name, which the kernel refuses when it is a socket, as it is here. */
  async #apply(batch: string, signal: AbortSignal): Promise<ExecResult> {
    signal.throwIfAborted();
    await using scope = new AsyncDisposableStack();
    const path = await this.#write(batch, scope);
    return await this.#run(['-f', path], signal);
  }

  /** The path of a file that goes with the scope. */
  async #write(batch: string, scope: AsyncDisposableStack): Promise<string> {
    try {
      const folder = scope.use(await mkdtempDisposable(join(this.#folder, 'netplug-nft-')));
      const path = join(folder.path, 'batch.json');
      await writeFile(path, batch, { mode: 0o600 });
      return path;
    } catch (cause) {
      const errno = errnoOf(cause) ?? String(cause);
      throw new NetplugError(
        'kernel/failed',
        `Cannot tell nft what to do: writing in "${this.#folder}" says ${errno}`,
        {
          hint: 'Give the agent a folder for temporary files, by the environment variable TMPDIR',
          facts: { errno },
          cause,
        },
      );
    }
  }

  async #run(args: readonly string[], signal: AbortSignal): Promise<ExecResult> {
    try {
      using limit = timeLimit(RUN_MS);
      return await exec(this.#program, ['-j', ...args], { signal: AbortSignal.any([signal, limit.signal]) });
    } catch (cause) {
      if (errnoOf(cause) !== 'ENOENT') throw cause;
      throw new NetplugError('kernel/nft-missing', `Cannot use nftables: there is no program "${this.#program}"`, {
        hint: 'Install the package nftables, so that nft is in a folder of PATH',
        cause,
      });
    }
  }
}

function nftFailure(what: string, { status, stderr }: ExecResult): NetplugError {
  // The first line may name the file only, and the reason follows.
  const reason = stderr.split('\n').find((line) => line.includes('Error:')) ?? stderr;
  return new NetplugError('kernel/failed', `Cannot ${what}: nft says "${reason.trim()}"`, {
    hint: 'The kernel needs nf_tables with nft_nat, nft_masq and nft_fib, and the agent CAP_NET_ADMIN',
    facts: { status },
  });
}
