import type { Mode } from '../../../base/mode.ts';
import type { Output } from '../common-options.ts';
import type { ProvenIn } from '../../../install/prove-executable.ts';
import type { ChainedPlugin } from '../../../install/render-conflist.ts';

/** The options of `node install`. Folders are paths as the tool sees them. */
export interface InstallOptions {
  readonly binDir: string;
  readonly confDir: string;
  /** Path of `confDir` on the host, when a container mounts it elsewhere. */
  readonly hostConfDir: string | undefined;
  readonly confName: string;
  /** Folder with the executables; undefined for the one the tool runs from. */
  readonly from: string | undefined;
  /** Whether kubeconfig and conflist are installed as well. */
  readonly extent: 'everything' | 'executables';
  /** Where netplug-standalone is run before it is installed; undefined for not at all. */
  readonly prove: ProvenIn | undefined;
  readonly conflist: ConflistChoice;
  readonly orch: OrchOptions;
  readonly mode: Mode;
  readonly output: Output;
}

export type ConflistChoice =
  | { readonly from: 'file'; readonly file: string }
  | {
      readonly from: 'options';
      readonly name: string;
      readonly mtu: number | undefined;
      readonly assignIpv6: boolean;
      readonly logFilePath: string | undefined;
      readonly chained: readonly ChainedPlugin[];
      /** File with further entries. */
      readonly chainedPlugins: string | undefined;
      readonly policy: 'orch' | 'none';
    };

/** The flags for the kubeconfig. */
export const ORCH_FLAGS = [
  'orchServer',
  'orchCaFile',
  'orchTokenFile',
  'orchTokenFrom',
  'orchClientCert',
  'orchClientKey',
] as const;

/** Undefined unless given. */
export type OrchOptions = Readonly<Record<(typeof ORCH_FLAGS)[number], string | undefined>>;

export interface UninstallOptions {
  /** Undefined for the folder in the record. */
  readonly binDir: string | undefined;
  readonly confDir: string | undefined;
  readonly changed: 'leave' | 'remove';
  readonly extent: 'files' | 'everything';
  /** Action when pods still have interfaces of netplug. */
  readonly pods: 'refuse' | 'cut-off';
  readonly mode: Mode;
  readonly output: Output;
}
