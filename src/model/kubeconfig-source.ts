/** Kubeconfig files to merge as kubectl merges them, and the context to use. */
export interface KubeconfigSource {
  /** An earlier file takes precedence over a later one. */
  readonly paths: readonly string[];
  /** The flag, variable or key that names the files, for error messages. */
  readonly namedBy: string;
  /** At least one file must exist in either case. */
  readonly ifMissing: 'skip' | 'refuse';
  /** Undefined selects the current context of the files. */
  readonly context: string | undefined;
}
