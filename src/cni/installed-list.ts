/** What the configuration list of a network says, as it is installed in the folder of the runtime. */
export interface InstalledList {
  /** Types of its plugins, in order. */
  readonly plugins: readonly string[];
  /** Whether it sets `disableGC`. */
  readonly disablesGc: boolean;
}
