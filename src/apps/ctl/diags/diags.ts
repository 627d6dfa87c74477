import { lstat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { NetplugError } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import { diagnose, diagnosisDocument, type DoctorOptions, placesOf } from '../doctor/doctor.ts';
import { openSources, type Sources } from '../doctor/sources.ts';
import { formatBytes } from '../format-bytes.ts';
import type { Context, Status } from '../ports.ts';
import { counted } from '../../../base/counted.ts';
import { agentItems } from './agent-items.ts';
import { writeArchive } from './archive.ts';
import { collect, manifest } from './collect.ts';
import type { DiagsItem } from './item.ts';
import { kernelItems } from './kernel-items.ts';
import { gatherSecrets } from './known-secrets.ts';
import { logItems } from './log-items.ts';
import { recordItems } from './record-items.ts';
import { redactorFor } from './redact.ts';

export interface DiagsOptions extends Omit<DoctorOptions, 'scope'> {
  /** Path of the archive; undefined for the default name in the working folder. */
  readonly output: string | undefined;
  readonly ifExists: 'replace' | 'refuse';
  /** Only logs since then, in milliseconds since the epoch. */
  readonly sinceMs: number | undefined;
}

/** Writes an archive for a bug report, without secrets. @throws cli/usage when the file exists, install/failed */
export async function diags(context: Context, options: DiagsOptions): Promise<Status> {
  const { io, ports, signal } = context;
  const at = new Date(ports.clock.now()).toISOString().replace(/\.\d+Z$/, 'Z');
  const node = ports.readRegisteredName() ?? ports.hostname;
  const folder = `netplug-diags-${node}-${at.replaceAll(/[-:]/g, '')}`;
  const path = resolve(options.output ?? `${folder}.tar.gz`);
  if (options.ifExists === 'refuse') await refuseExisting(path);
  await using scope = new AsyncDisposableStack();
  const doctorOptions = { ...options, scope: undefined };
  const sources = openSources(context, { places: placesOf(context, doctorOptions), includesNode: true }, scope);
  const redact = redactorFor(await gatherSecrets(sources));
  const items = await allItems(sources, options);
  const collected = await collect(items, redact, signal);
  const files = [manifest(collected, { tool: VERSION, node, at }), ...collected.files];
  await writeArchive({ folder, files }, { path, ifExists: options.ifExists }, signal);
  const sizeBytes = (await lstat(path)).size;
  io.stdout(`${path}: ${counted(files.length, 'file')}, ${formatBytes(sizeBytes)}\n`);
  const missing = collected.failed.length;
  if (missing > 0)
    io.stderr(`${counted(missing, 'item')} could not be gathered; manifest.json in the archive has the reasons\n`);
  return 0;
}

async function allItems(sources: Sources, options: DiagsOptions): Promise<readonly DiagsItem[]> {
  const { context } = sources;
  const files = await sources.confFiles();
  const logs = files.flatMap(({ netconf }) => netconf?.log.filePath ?? []).map((path) => dirname(path));
  const { machine } = context.ports;
  return [
    {
      path: 'doctor.json',
      gather: async (signal) =>
        JSON.stringify(
          diagnosisDocument(await diagnose({ ...quiet(context), signal }, { ...options, scope: undefined })),
        ),
    },
    ...files.map(({ name, text, problem }): DiagsItem => ({
      path: `cni/${name}`,
      gather: async () => (text === undefined ? Promise.reject(new Error(problem)) : Promise.resolve(text)),
    })),
    ...agentItems(sources),
    ...kernelItems(sources),
    ...recordItems(sources),
    ...(await logItems([...logs, machine.logDir, machine.runDir], options.sinceMs)),
  ];
}

/** Suppresses warnings about the connection, which this command has already printed. */
function quiet(context: Context): Context {
  return { ...context, io: { ...context.io, stderr: () => undefined } };
}

/** Fails before any work is done; a file that appears meanwhile is not overwritten either. */
async function refuseExisting(path: string): Promise<void> {
  const exists = await lstat(path).then(
    () => true,
    () => false,
  );
  if (!exists) return;
  throw new NetplugError('cli/usage', `Cannot write "${path}": the file exists`, {
    hint: 'Choose another path with --output, or replace the file with --force',
  });
}
