import type { Mode } from '../../../base/mode.ts';
import type { Output } from '../common-options.ts';
import type { ChainedPlugin } from '../../../install/render-conflist.ts';

/** What is wanted on the node; folders are those the tool sees. */
export interface InstallOptions {
  readonly binDir: string;
  readonly confDir: string;
  /** Where the host sees `confDir`; a container may have it mounted elsewhere. */
  readonly hostConfDir: string | undefined;
  readonly confName: string;
  /** Folder with the executables; undefined for the one the tool runs from. */
  readonly from: string | undefined;
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
      readonly policy: 'orch' | 'none';
    };

/** The flags of the kubeconfig as they were given. */
export interface OrchOptions {
  readonly orchServer?: string;
  readonly orchCaFile?: string;
  readonly orchTokenFile?: string;
  readonly orchTokenFrom?: string;
  readonly orchClientCert?: string;
  readonly orchClientKey?: string;
}

export interface UninstallOptions {
  /** Undefined is where the record says. */
  readonly binDir: string | undefined;
  readonly confDir: string | undefined;
  readonly changed: 'leave' | 'remove';
  readonly extent: 'files' | 'everything';
  /** What if pods still have interfaces of netplug, when everything is removed. */
  readonly pods: 'refuse' | 'cut-off';
  readonly mode: Mode;
  readonly output: Output;
}
