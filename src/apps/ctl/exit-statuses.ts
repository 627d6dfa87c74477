/** The meaning of each exit status. docs/errors.md lists the status of each error code. */
export const EXIT_STATUSES: ReadonlyMap<number, string> = new Map([
  [0, 'success'],
  [1, 'problems were found, work is left, or policies deny the connection or would cut one'],
  [64, 'the command line is invalid, or a file cannot be read'],
  [65, 'a resource is invalid, or a record cannot be decoded'],
  [66, 'the resource does not exist'],
  [69, 'the resource is in use, the orchestrator is needed, or no agent answers'],
  [70, 'a bug of netplug'],
  [71, 'the kernel refused'],
  [72, 'a required program is missing'],
  [73, 'the resource exists already'],
  [74, 'a file or folder of the node cannot be written'],
  [75, 'the datastore is unavailable, or other writers keep changing the same record'],
  [76, 'the agent is of another version'],
  [77, 'the datastore refused the credentials'],
  [78, 'the configuration is wrong'],
  [79, 'the command writes, and the cluster has another version than the tool'],
]);
