import { NetplugError, errnoOf } from '../../base/errors.ts';
import { type ExecResult, exec } from '../../base/exec.ts';
import type { NftTable, PacketFilter } from '../packet-filter.ts';
import { replacementBatch } from './nft-batch.ts';
import { canonicalTable } from './nft-canonical.ts';

/** What a filter left behind: the batch it gave, and how the kernel showed the table right after. */
interface Left {
  readonly batch: string;
  readonly shown: string;
}

/** nftables of the network namespace the process is in, by the program `nft`. */
export class NftPacketFilter implements PacketFilter {
  readonly #program: string;
  readonly #left = new Map<string, Left>();

  constructor(program: string = 'nft') {
    this.#program = program;
  }

  async replace(table: NftTable, signal: AbortSignal): Promise<'unchanged' | 'changed'> {
    const batch = replacementBatch(table);
    if (await this.#isInPlace(table, batch, signal)) return 'unchanged';
    this.#left.delete(table.name);
    const applied = await this.#run(['-j', '-f', '-'], signal, batch);
    if (applied.status !== 0) throw nftFailure(`replace the nftables table "${table.name}"`, applied);
    const shown = await this.#show(table.name, signal);
    if (shown !== undefined) this.#left.set(table.name, { batch, shown });
    return 'changed';
  }

  async #isInPlace({ name, objects }: NftTable, batch: string, signal: AbortSignal): Promise<boolean> {
    const left = this.#left.get(name);
    if (objects.length > 0 && left?.batch !== batch) return false;
    const shown = await this.#show(name, signal);
    return objects.length === 0 ? shown === undefined : shown === left?.shown;
  }

  /** The table in canonical form; undefined when there is none. */
  async #show(name: string, signal: AbortSignal): Promise<string | undefined> {
    const listed = await this.#run(['-j', 'list', 'table', 'inet', name], signal);
    if (listed.status === 0) return canonicalTable(listed.stdout);
    if (listed.stderr.includes('No such file or directory')) return undefined;
    throw nftFailure(`read the nftables table "${name}"`, listed);
  }

  async #run(args: readonly string[], signal: AbortSignal, stdin = ''): Promise<ExecResult> {
    try {
      return await exec(this.#program, args, { stdin, signal });
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
  const [reason = ''] = stderr.trim().split('\n');
  return new NetplugError('kernel/failed', `Cannot ${what}: nft says "${reason}"`, {
    hint: 'Look whether the kernel has nf_tables with nft_nat, nft_masq and nft_fib, and whether the agent has CAP_NET_ADMIN',
    facts: { status },
  });
}
