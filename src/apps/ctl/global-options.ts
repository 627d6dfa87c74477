import { flagOption, notAllowed, value } from './command.ts';

/** Options that every command accepts. */
export const GLOBAL_OPTIONS = {
  config: value('file', 'read the connection from a file instead of the environment', {
    excludes: ['kubeconfig', 'context'],
    completes: 'file',
  }),
  kubeconfig: value('file', 'use the API server of this kubeconfig', { completes: 'file' }),
  context: value('name', 'use this context of the kubeconfig', { completes: 'context' }),
  timeout: value('seconds', 'timeout of the command (default: 30, none for a watch)', {
    read: positiveNumber,
  }),
  allowVersionMismatch: flagOption('write although the cluster has another version'),
  allowLocked: flagOption('write although the datastore is locked'),
};

function positiveNumber(text: string): number {
  const seconds = Number(text);
  const isOne = /^\d+(\.\d+)?$/.test(text) && seconds > 0 && seconds <= 3600;
  return isOne ? seconds : notAllowed('Allowed is a number of seconds greater than 0 and at most 3600.');
}
