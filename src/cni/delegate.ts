import { tryParseJson } from '../base/try-parse-json.ts';
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { errnoOf, NetplugError } from '../base/errors.ts';
import type { ExecResult } from '../base/exec.ts';
import { isJsonObject } from './result.ts';

/** Runs a plugin with the CNI environment of the call and forwards its stderr. */
export type ExecDelegate = (
  file: string,
  call: { readonly command: string; readonly stdin: string; readonly signal: AbortSignal },
) => Promise<ExecResult>;

/** An error that a delegated plugin returned, with its CNI code and message. */
export class DelegateError extends Error {
  readonly cniCode: number;
  readonly details: string | undefined;

  constructor(plugin: string, answer: { code: number; msg: string; details: string | undefined }) {
    super(`Plugin "${plugin}" refused: ${answer.msg}`);
    this.name = 'DelegateError';
    this.cniCode = answer.code;
    this.details = answer.details;
  }
}

/**
 * Calls a delegated plugin (CNI 1.1.0, section 4). Returns the JSON that it printed, or undefined when it printed none.
 * Retries with version 1.0.0 when the plugin does not support 1.1.0.
 * @throws DelegateError, delegate/not-found, delegate/failed
 */
export async function callDelegate(
  exec: ExecDelegate,
  request: {
    readonly plugin: string;
    readonly path: readonly string[];
    readonly command: string;
    readonly conf: Readonly<Record<string, unknown>>;
    readonly signal: AbortSignal;
  },
): Promise<unknown> {
  try {
    return await callOnce(exec, request);
  } catch (cause) {
    const isTooNew = cause instanceof DelegateError && cause.cniCode === 1 && request.conf['cniVersion'] === '1.1.0';
    if (!isTooNew || request.command === 'GC' || request.command === 'STATUS') throw cause;
    const { prevResult } = request.conf;
    const older = { ...request.conf, cniVersion: '1.0.0' };
    const conf = isJsonObject(prevResult) ? { ...older, prevResult: { ...prevResult, cniVersion: '1.0.0' } } : older;
    return callOnce(exec, { ...request, conf });
  }
}

/**
 * Reports whether the error means that the plugin does not implement the verb, such as plugins older than CNI 1.1. Some
 * check for a container first and return code 3, because GC and STATUS name none.
 */
export function isVerbUnknown(cause: unknown): boolean {
  return cause instanceof DelegateError && [1, 3, 4].includes(cause.cniCode);
}

async function callOnce(exec: ExecDelegate, request: Parameters<typeof callDelegate>[1]): Promise<unknown> {
  const { plugin, command, conf, signal } = request;
  const file = findPlugin(plugin, request.path);
  const { status, stdout, stderr } = await exec(file, { command, stdin: JSON.stringify(conf), signal });
  const answer = tryParseJson(stdout);
  if (status === 0) return answer;
  if (isJsonObject(answer) && typeof answer['code'] === 'number') {
    const { code, msg, details } = answer;
    throw new DelegateError(plugin, {
      code,
      msg: String(msg),
      details: typeof details === 'string' && details !== '' ? details : undefined,
    });
  }
  const firstLine = (stderr.trim() === '' ? stdout : stderr).trim().split('\n')[0] ?? '';
  throw new NetplugError(
    'delegate/failed',
    `Cannot run ${command} of plugin "${plugin}": it ended with status ${String(status ?? 'none')}: ${firstLine}`,
    {
      hint: `Run "${file}" by hand to see what is wrong with it`,
      facts: { plugin, file },
    },
  );
}

function findPlugin(plugin: string, path: readonly string[]): string {
  const isPath = plugin.includes('/');
  for (const folder of isPath ? [] : path) {
    const file = join(folder, plugin);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch (cause) {
      if (!['ENOENT', 'EACCES', 'ENOTDIR'].includes(errnoOf(cause) ?? '')) throw cause;
    }
  }
  const folders = path.map((folder) => `"${folder}"`).join(', ');
  const state = isPath ? 'the name holds a "/"' : `it is in none of the folders of CNI_PATH (${folders})`;
  throw new NetplugError('delegate/not-found', `Cannot find plugin "${plugin}": ${state}`, {
    hint: 'Install the plugin into the CNI bin directory, or correct ipam.type',
    facts: { plugin },
  });
}
