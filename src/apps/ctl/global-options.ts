import { flagOption, notAllowed, value } from './command.ts';

/** Every command has them. */
export const GLOBAL_OPTIONS = {
  config: value('file', 'read the connection from a file instead of the environment', {
    excludes: ['kubeconfig', 'context'],
    completes: 'file',
  }),
  kubeconfig: value('file', 'use the API server of this kubeconfig', { completes: 'file' }),
  context: value('name', 'use this context of the kubeconfig', { completes: 'context' }),
  timeout: value('seconds', 'time for the whole command (default: 30, and no end for a watch)', {
    read: positiveNumber,
  }),
  allowVersionMismatch: flagOption('write although the cluster is of another version'),
  allowLocked: flagOption('write although the datastore is locked'),
};

function positiveNumber(text: string): number {
  const seconds = Number(text);
  const isOne = /^\d+(\.\d+)?$/.test(text) && seconds > 0 && seconds <= 3600;
  return isOne ? seconds : notAllowed('Allowed is a number of seconds above 0 and up to 3600.');
}
