// Process accounting of the kernel: CPU time of every process of the machine, by program.
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';

/** Numbers of the system call acct. */
const ACCT: Readonly<Record<string, number>> = { x64: 163, arm64: 89 };
/** Of the record of version 3, see acct(5): its size, and where its fields begin. */
const RECORD = { bytes: 64, version: 1, userTime: 32, systemTime: 34, name: 48 };
const TICKS = 100;
/** What Node calls its first thread. */
const NODE = 'MainThread';

/** What the processes of one program have used. */
export interface ProgramUsage {
  readonly program: string;
  readonly processes: number;
  readonly cpuSeconds: number;
}

/** Writes a record for each process that ends, until `stop` is called. `reason` is there where the kernel does not. */
export function startAccounting(path: string): { readonly reason?: string; stop(): readonly ProgramUsage[] } {
  const call = ACCT[process.arch];
  if (call === undefined) return { reason: `no system call is known for ${process.arch}`, stop: () => [] };
  writeFileSync(path, '');
  const { status, stderr } = account(call, path);
  if (status !== 0) return { reason: `acct: ${stderr.trim()}`, stop: () => [] };
  return {
    stop() {
      account(call);
      const usage = usageByProgram(readFileSync(path));
      rmSync(path);
      return usage;
    },
  };
}

/** Node has no system calls; perl is in every Debian. Accounting ends without a path. */
function account(call: number, path?: string): { readonly status: number | null; readonly stderr: string } {
  const script = 'exit 0 if syscall($ARGV[0] + 0, $ARGV[1] // 0) == 0; print STDERR $!; exit 1';
  const args = ['-e', script, String(call), ...(path === undefined ? [] : [path])];
  return spawnSync('perl', args, { encoding: 'utf8' });
}

/** Sums the records of the kernel, programs that used most first. */
export function usageByProgram(records: Buffer): readonly ProgramUsage[] {
  const sums = new Map<string, { processes: number; ticks: number }>();
  for (let at = 0; at + RECORD.bytes <= records.length; at += RECORD.bytes) {
    const record = records.subarray(at, at + RECORD.bytes);
    if (record.readUInt8(RECORD.version) !== 3) continue;
    const thread = record.toString('latin1', RECORD.name).replace(/\0.*$/s, '');
    const name = thread === NODE ? 'node' : thread;
    const sum = sums.get(name) ?? { processes: 0, ticks: 0 };
    sum.processes += 1;
    sum.ticks += ticksOf(record.readUInt16LE(RECORD.userTime)) + ticksOf(record.readUInt16LE(RECORD.systemTime));
    sums.set(name, sum);
  }
  return [...sums]
    .map(([program, { processes, ticks }]) => ({ program, processes, cpuSeconds: ticks / TICKS }))
    .toSorted((a, b) => b.cpuSeconds - a.cpuSeconds);
}

/** Expands a `comp_t`: 13 bits of fraction under 3 bits of an exponent to base 8. */
function ticksOf(compressed: number): number {
  return (compressed & 0x1fff) * 8 ** (compressed >> 13);
}
