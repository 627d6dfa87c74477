import { ownValue } from '../base/own-value.ts';
import { NetplugError } from '../base/errors.ts';
import { interfaceNameFault, isContainerId } from '../model/interface-name.ts';

export type CniVerb = 'ADD' | 'DEL' | 'CHECK' | 'GC' | 'STATUS' | 'VERSION';

/** The validated environment of a call (CNI 1.1.0, section 2, "Parameters"). */
export interface Invocation {
  readonly command: CniVerb;
  /** Empty for commands that name no container. */
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  readonly args: string | undefined;
  /** Directories that are searched for delegated plugins. */
  readonly path: readonly string[];
}

type Environment = Readonly<Record<string, string | undefined>>;

const REQUIRED: Readonly<Record<CniVerb, readonly string[]>> = {
  ADD: ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_PATH'],
  CHECK: ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_PATH'],
  DEL: ['CNI_CONTAINERID', 'CNI_IFNAME'],
  GC: ['CNI_PATH'],
  STATUS: ['CNI_PATH'],
  VERSION: [],
};

/** Decodes and validates the environment. @throws cni/env-invalid naming every missing variable, or the first invalid one */
export function decodeInvocation(env: Environment): Invocation {
  const command = env['CNI_COMMAND'] ?? '';
  if (!isCommand(command)) {
    throw envInvalid(
      `CNI_COMMAND is ${JSON.stringify(command)}`,
      `Set it to one of ${Object.keys(REQUIRED).join(', ')}`,
    );
  }
  const missing = REQUIRED[command].filter((name) => (ownValue(env, name) ?? '') === '');
  if (missing.length > 0) {
    throw envInvalid(
      `${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing`,
      `${command} needs ${REQUIRED[command].join(', ')}`,
    );
  }
  const namesContainer = REQUIRED[command].includes('CNI_CONTAINERID');
  return {
    command,
    containerId: namesContainer ? checkContainerId(env['CNI_CONTAINERID'] ?? '') : '',
    ifName: namesContainer ? checkIfName(env['CNI_IFNAME'] ?? '') : '',
    netns: env['CNI_NETNS'] ?? '',
    args: env['CNI_ARGS'],
    path: (env['CNI_PATH'] ?? '').split(':').filter((folder) => folder !== ''),
  };
}

/** Reports whether the runtime allows the plugin's own network namespace as the pod's. */
export function allowsOwnNetns(env: Environment): boolean {
  return ['1', 'true', 'True', 'TRUE', 't', 'T'].includes(env['CNI_NETNS_OVERRIDE'] ?? '');
}

function isCommand(text: string): text is CniVerb {
  return Object.hasOwn(REQUIRED, text);
}

function checkContainerId(text: string): string {
  if (isContainerId(text)) return text;
  throw envInvalid(
    `CNI_CONTAINERID is ${JSON.stringify(text)}`,
    'Begin with a letter or digit and use letters, digits, ".", "_" and "-" only',
  );
}

function checkIfName(text: string): string {
  const fault = interfaceNameFault(text);
  if (fault === undefined) return text;
  throw envInvalid(
    `CNI_IFNAME ${JSON.stringify(text)} ${fault}`,
    'Use an interface name of 1 to 15 bytes, such as "eth0"',
  );
}

function envInvalid(state: string, hint: string): NetplugError {
  return new NetplugError('cni/env-invalid', `Cannot serve the call: ${state}`, { hint });
}
