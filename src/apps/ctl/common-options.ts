import { choice, flagOption, notAllowed, numberLike, type Option, value, values } from './command.ts';
import type { FileChoice } from './inputs.ts';

const OUTPUTS = ['table', 'json'] as const;
export type Output = (typeof OUTPUTS)[number];

const DOCUMENT_OUTPUTS = ['table', 'json', 'yaml'] as const;
export type DocumentOutput = (typeof DOCUMENT_OUTPUTS)[number];

export const OUTPUT: Option<Output> = choice('format', 'output format', { choices: OUTPUTS, short: 'o' });
export const DOCUMENT_OUTPUT: Option<DocumentOutput> = choice('format', 'output format', {
  choices: DOCUMENT_OUTPUTS,
  short: 'o',
});

export const SOCKET = value('path', 'socket of the agent (default: $NETPLUG_SOCKET, or /run/netplug/cni.sock)', {
  completes: 'file',
});

export const FILES = {
  filename: values('path', 'file, folder, or "-" for standard input; may be repeated', {
    short: 'f',
    completes: 'file',
  }),
  recursive: flagOption('read subfolders as well', { short: 'R' }),
};

export function fileChoice(options: { readonly filename: readonly string[]; readonly recursive: boolean }): FileChoice {
  return { paths: options.filename, folders: options.recursive ? 'recursive' : 'flat' };
}

export const wholeSeconds = numberLike(/^\d{1,9}$/, 'Allowed is a whole number of seconds, 0 or more.');

export function portNumber(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : notAllowed('Allowed is a port from 1 to 65535.');
}
