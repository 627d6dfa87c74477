import { open, readFile, readlink, realpath } from 'node:fs/promises';
import { arch } from 'node:os';
import { dirname, join } from 'node:path';
import { systemClock, timeLimit } from '../base/clock.ts';
import { errnoOf, NetplugError } from '../base/errors.ts';
import { exec, type ExecResult } from '../base/exec.ts';
import { tryParseJson } from '../base/try-parse-json.ts';
import { mountOf, readMounts } from './host/mounts.ts';
import { PROVEN_NAME } from './places.ts';

/** Place where an executable is run: in the mount namespace of this process, or in that of process 1 of the host. */
export type ProvenIn = 'own-namespace' | 'host';

/** Runs the executable at a path. @throws install/failed with the reason when it cannot run */
export type Prove = (path: string) => Promise<void>;

const LIMIT_MS = 30_000;
const BUSY_MS = 20;
const ELF_HEADER_BYTES = 20;
const ELF_MACHINE_OFFSET = 18;
const HOST_NAMESPACE = '/proc/1/ns/mnt';
/** A call that changes nothing and needs no configuration. */
const CALL = {
  env: { CNI_COMMAND: 'VERSION', PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  stdin: '{"cniVersion":"1.0.0"}',
};
const NEEDED = 'netplug-standalone needs glibc 2.28 or later';

/** Runs `netplug-standalone` with a call that changes nothing. @throws install/failed */
export async function proveExecutable(path: string, where: ProvenIn, signal: AbortSignal): Promise<void> {
  await assertOwnArchitecture(path);
  if (where === 'host') await assertOtherNamespace();
  const [file, ...args] = where === 'host' ? ['nsenter', `--mount=${HOST_NAMESPACE}`, '--', path] : [path];
  using limit = timeLimit(LIMIT_MS, () =>
    failed(path, `it did not answer within ${String(LIMIT_MS / 1000)} s`, NEEDED),
  );
  const ended = await execSettled([file ?? path, args], AbortSignal.any([signal, limit.signal])).catch(
    async (cause: unknown) => {
      if (cause instanceof NetplugError || errnoOf(cause) === undefined) throw cause;
      if (where === 'host' && errnoOf(cause) === 'ENOENT') throw nsenterMissing(cause);
      throw await explain(path, { where, text: errnoOf(cause) ?? '' });
    },
  );
  if (isAnswer(ended)) return;
  throw await explain(path, { where, text: firstLine(ended) });
}

/**
 * Runs a program that was just written. Another program that was started meanwhile may hold the file open for writing until it
 * has replaced itself, and the kernel then refuses to run it.
 */
async function execSettled(
  [file, args]: readonly [string, readonly string[]],
  signal: AbortSignal,
): Promise<ExecResult> {
  for (;;) {
    try {
      return await exec(file, args, { ...CALL, signal });
    } catch (cause) {
      if (errnoOf(cause) !== 'ETXTBSY') throw cause;
      await systemClock.sleep(BUSY_MS, signal);
    }
  }
}

function isAnswer({ status, stdout }: ExecResult): boolean {
  const answer = tryParseJson(stdout);
  return status === 0 && typeof answer === 'object' && answer !== null && 'supportedVersions' in answer;
}

function firstLine({ status, stdout, stderr }: ExecResult): string {
  const [line = ''] = `${stderr}\n${stdout}`.trim().split('\n');
  return line === '' ? `it ended with ${status === undefined ? 'a signal' : `status ${String(status)}`}` : line;
}

/** Reads why a program does not start from the error of the kernel, of its loader or of nsenter. */
async function explain(
  path: string,
  { where, text }: { readonly where: ProvenIn; readonly text: string },
): Promise<NetplugError> {
  const [library] = /[\w.+-]+\.so[\w.]*(?=: cannot open shared object)/.exec(text) ?? [];
  if (library !== undefined) {
    const hint = `Install it on the host, for example with the package libc6; ${NEEDED}`;
    return failed(path, `the host lacks the library ${library}`, hint);
  }
  const [version] = /GLIBC(?:XX)?_[\d.]+/.exec(text) ?? [];
  if (version !== undefined) return failed(path, `the host lacks ${version}`, `Use a newer host system; ${NEEDED}`);
  if (/EACCES|Permission denied/.test(text)) {
    const isNoExec = await isMountedNoExec(path, where);
    const hint = 'Mount the folder of --bin-dir without noexec, or choose another one that the runtime reads';
    return isNoExec
      ? failed(path, 'its file system is mounted with noexec', hint)
      : failed(path, 'permission is denied', 'Run the command as root, and see the security policy of the host');
  }
  if (/ENOENT|No such file or directory/.test(text)) {
    const state = 'the host lacks its program loader, or does not have the folder of --bin-dir at the same path';
    return failed(path, state, `Mount the folder at the path that it has on the host; ${NEEDED}`);
  }
  return failed(path, text, NEEDED);
}

async function isMountedNoExec(path: string, where: ProvenIn): Promise<boolean> {
  const mounts = await readFile(where === 'host' ? '/proc/1/mounts' : '/proc/self/mounts', 'utf8').catch(() => '');
  const folder = await realpath(dirname(path)).catch(() => dirname(path));
  return mountOf(readMounts(mounts), folder)?.options.includes('noexec') === true;
}

/** A shell would try to run a program for another architecture as a script. */
async function assertOwnArchitecture(path: string): Promise<void> {
  const [machine, own] = [await machineOf(path), await machineOf('/proc/self/exe')];
  if (machine === undefined || machine === own) return;
  throw failed(path, 'it is built for another architecture', `Use the executables or the image for ${arch()}`);
}

/** Returns the machine type in the header of an ELF file; undefined for other files. */
async function machineOf(path: string): Promise<number | undefined> {
  const header = Buffer.alloc(ELF_HEADER_BYTES);
  await using file = await open(path, 'r');
  const { bytesRead } = await file.read(header, 0, header.length, 0);
  const isElf = bytesRead === header.length && header.subarray(0, 4).equals(Buffer.from('\x7FELF', 'latin1'));
  return isElf ? header.readUInt16LE(ELF_MACHINE_OFFSET) : undefined;
}

/** Without the process ids of the host, process 1 is that of the container, and proves nothing. */
async function assertOtherNamespace(): Promise<void> {
  const [own, first] = [await readlink('/proc/self/ns/mnt'), await readlink(HOST_NAMESPACE).catch(() => undefined)];
  if (first !== undefined && first !== own) return;
  throw new NetplugError(
    'install/failed',
    `Cannot use --prove-on-host: ${first === undefined ? 'the mount namespace of process 1 is not accessible' : 'process 1 has the mount namespace of this process'}`,
    { hint: 'Set "hostPID: true" and "privileged: true" in the pod; on the host itself, leave --prove-on-host out' },
  );
}

function nsenterMissing(cause: unknown): NetplugError {
  return new NetplugError('cli/program-missing', 'Cannot use --prove-on-host: there is no program "nsenter"', {
    hint: 'Install util-linux in the image',
    cause,
  });
}

function failed(path: string, state: string, hint: string): NetplugError {
  const installed = join(dirname(path), PROVEN_NAME);
  const why = state.replaceAll(path, installed);
  return new NetplugError('install/failed', `Cannot run "${installed}": ${why}`, {
    hint,
    facts: { path: installed },
  });
}
