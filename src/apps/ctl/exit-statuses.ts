/** What the exit statuses of the tool mean; each error code names its own (docs/errors.md). */
export const EXIT_STATUSES: ReadonlyMap<number, string> = new Map([
  [0, 'done; nothing wrong is left'],
  [1, 'something was found, or is left'],
  [64, 'the command line is not understood, or a file cannot be read'],
  [65, 'a resource breaks a rule, or a record cannot be understood'],
  [66, 'there is no such resource'],
  [69, 'the resource is in use, the orchestrator is needed, or no agent answers'],
  [70, 'a bug of netplug'],
  [71, 'the kernel refused'],
  [72, 'a program that is needed is not there'],
  [73, 'the resource exists already'],
  [74, 'a file or folder of the node cannot be written'],
  [75, 'the datastore does not answer, or others keep changing the same record'],
  [76, 'the agent is of another version'],
  [77, 'the datastore refused the credentials'],
  [78, 'the configuration is wrong'],
  [79, 'the tool is of another version than the cluster, and would write'],
]);
