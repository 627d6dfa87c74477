import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { timeLimit } from '../../base/clock.ts';
import { NetplugError, errnoOf } from '../../base/errors.ts';
import { type ExecResult, exec } from '../../base/exec.ts';
import type { NftTable, PacketFilter } from '../packet-filter.ts';
import { loadAddon } from './addon.ts';
import { replacementBatch } from './nft-batch.ts';
import { readListing } from './nft-listing.ts';
import { readGeneration } from './nft-generation.ts';
import { NftSocket } from './nft-socket.ts';

export interface NftOptions {
  /** Name of a program in PATH, or a path. */
  readonly program?: string;
  /** Folder for the temporary file with the input of nft. */
  readonly folder?: string;
}

/** A run of nft that takes longer is considered hung. */
const RUN_MS = 20_000;

/** A table as it was last found to be as desired. */
interface Applied {
  readonly wanted: string;
  /** Table as nft printed it; undefined when there was none, and none was needed. */
  readonly printed: string | undefined;
  /** The generation of all tables at that time or before; undefined when the kernel does not tell. */
  readonly generation: number | undefined;
}

/** The nftables of the network namespace of the process, through the program `nft`. */
export class NftPacketFilter implements PacketFilter {
  readonly #program: string;
  readonly #folder: string;
  readonly #applied = new Map<string, Applied>();

  constructor({ program = 'nft', folder = tmpdir() }: NftOptions = {}) {
    this.#program = program;
    this.#folder = folder;
  }

  async replace(table: NftTable, signal: AbortSignal): Promise<'unchanged' | 'changed'> {
    const { name, objects, onlyIfExists = objects.length === 0 } = table;
    using socket = NftSocket.open(loadAddon());
    const generation = await readGeneration(socket);
    const wanted = JSON.stringify(objects);
    const applied = this.#applied.get(name);
    const isAsWanted = applied?.wanted === wanted && (applied.printed !== undefined || onlyIfExists);
    if (isAsWanted && generation !== undefined && applied.generation === generation) return 'unchanged';
    const printed = await this.#print(name, signal);
    if (printed === undefined ? onlyIfExists : isUnchanged(applied, wanted, printed)) {
      this.#applied.set(name, { wanted, printed, generation });
      return 'unchanged';
    }
    this.#applied.delete(name);
    // Without the elements of sets, which may be thousands and are replaced anyway.
    const listing = printed === undefined ? undefined : await this.#print(name, signal, '--terse');
    const batch = replacementBatch(table, listing === undefined ? [] : readListing(listing));
    const result = await this.#apply(batch, signal);
    if (result.status !== 0) throw nftFailure(`replace the nftables table "${name}"`, result);
    const replaced = await readGeneration(socket);
    const after = await this.#print(name, signal);
    if (after !== undefined) this.#applied.set(name, { wanted, printed: after, generation: replaced });
    return 'changed';
  }

  async has(name: string, signal: AbortSignal): Promise<boolean> {
    return (await this.#print(name, signal, '--terse')) !== undefined;
  }

  /** Returns the table as JSON; undefined when there is none of that name. */
  async #print(name: string, signal: AbortSignal, ...options: readonly '--terse'[]): Promise<string | undefined> {
    const listed = await this.#run([...options, 'list', 'table', 'inet', name], signal);
    if (listed.status === 0) return listed.stdout;
    if (listed.stderr.includes('No such file or directory')) return undefined;
    throw nftFailure(`read the nftables table "${name}"`, listed);
  }

  /** Passes the batch in a file: nft opens /dev/stdin by name, which the kernel refuses for a socket such as ours. */
  async #apply(batch: string, signal: AbortSignal): Promise<ExecResult> {
    signal.throwIfAborted();
    await using scope = new AsyncDisposableStack();
    const path = await this.#write(batch, scope);
    return await this.#run(['-f', path], signal);
  }

  /** Writes the batch to a file that is removed with the scope. Returns its path. */
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
        `Cannot pass commands to nft: writing in "${this.#folder}" fails with ${errno}`,
        {
          hint: 'Set the environment variable TMPDIR of the agent to a writable folder',
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

function isUnchanged(applied: Applied | undefined, wanted: string, printed: string): boolean {
  if (applied?.wanted !== wanted || applied.printed === undefined) return false;
  // Usually even the order of elements is the same, and nothing has to be parsed.
  if (applied.printed === printed) return true;
  return JSON.stringify(readListing(applied.printed)) === JSON.stringify(readListing(printed));
}

function nftFailure(what: string, { status, stderr }: ExecResult): NetplugError {
  // The first line may contain only the file name.
  const reason = stderr.split('\n').find((line) => line.includes('Error:')) ?? stderr;
  return new NetplugError('kernel/failed', `Cannot ${what}: nft says "${reason.trim()}"`, {
    hint: 'The kernel needs nf_tables with nft_nat, nft_masq and nft_fib, and the agent CAP_NET_ADMIN',
    facts: { status },
  });
}
