import type { NodeName } from '../model/names.ts';
import type { CallsQuestion } from '../model/shown-call.ts';
import type { InstallOptions, UninstallOptions } from './install/install-job.ts';

/** What a command line asks for. */
export type Job =
  | { readonly verb: 'apply' | 'create' | 'replace'; readonly files: FileChoice }
  | { readonly verb: 'delete'; readonly target: Target; readonly ifMissing: 'ignore' | 'fail' }
  | {
      readonly verb: 'get';
      readonly target: Target;
      readonly output: GetOutput;
      readonly namespace: string | undefined;
    }
  | ({ readonly verb: 'ipam-show' } & ShowOptions)
  | ({ readonly verb: 'ipam-check' } & CheckOptions)
  | { readonly verb: 'lint'; readonly files: readonly string[]; readonly output: Output }
  | ({ readonly verb: 'install' } & InstallOptions & Answer)
  | ({ readonly verb: 'uninstall' } & UninstallOptions & Answer)
  | ({ readonly verb: 'trace' } & TraceOptions)
  | ({ readonly verb: 'node-status' } & StatusOptions)
  | ({ readonly verb: 'node-remove' } & RemoveNodeOptions)
  | { readonly verb: 'node-clean'; readonly socket: string | undefined }
  | { readonly verb: 'version'; readonly isClientOnly: boolean };

export type Target =
  | { readonly by: 'name'; readonly kind: string; readonly names: readonly string[] }
  | { readonly by: 'file'; readonly files: FileChoice };

export interface FileChoice {
  /** Files, folders, or `-` for standard input. */
  readonly paths: readonly string[];
  readonly folders: 'recursive' | 'flat';
}

export interface ShowOptions {
  readonly ip: string | undefined;
  readonly withBlocks: boolean;
  readonly output: Output;
}

export interface CheckOptions {
  readonly mode: 'list' | 'release';
  /** Whether allocations without proof either way count as leaks. */
  readonly unconfirmed: 'note' | 'leak';
  /** Whether the kernel of this machine is asked too. */
  readonly kernel: 'ask' | 'leave-out';
  readonly node: string | undefined;
  /** Younger allocations may belong to an ADD that is still under way. */
  readonly graceSeconds: number;
  readonly output: Output;
}

export interface TraceOptions extends CallsQuestion, Answer {
  /** Where the agent listens, if not where it always does. */
  readonly socket: string | undefined;
}

export interface StatusOptions extends Answer {
  /** Where the agent listens, if not where it always does. */
  readonly socket: string | undefined;
}

export interface RemoveNodeOptions {
  readonly node: NodeName;
  /** What if the orchestrator still has the node. */
  readonly ifPresent: 'refuse' | 'remove';
  readonly mode: 'rehearse' | 'carry-out';
}

export interface Answer {
  readonly output: Output;
}

export const GET_OUTPUTS = ['table', 'wide', 'yaml', 'json', 'name'] as const;
export type GetOutput = (typeof GET_OUTPUTS)[number];
export const OUTPUTS = ['table', 'json'] as const;
export type Output = (typeof OUTPUTS)[number];
