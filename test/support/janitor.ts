// Removes what a test process leaves when it is killed and cannot do so itself.
import { spawn } from 'node:child_process';
import type { Writable } from 'node:stream';

/** Reads what there is until its input ends, as it does with the process, and removes what is still there, last first. */
const SCRIPT = `
remove() {
  case $1 in
    netns) ip netns delete "$2";;
    folder) rm -rf "$2";;
    cgroup)
      find /sys/fs/cgroup/"$2" /sys/fs/cgroup/*/"$2" -name cgroup.procs -exec cat {} + | xargs -r kill -KILL
      find /sys/fs/cgroup/"$2" /sys/fs/cgroup/*/"$2" -depth -type d -exec rmdir {} +;;
  esac
}
is_there() {
  case $1 in
    netns) [ -e /run/netns/"$2" ];;
    folder) [ -e "$2" ];;
    cgroup) find /sys/fs/cgroup -maxdepth 2 -name "$2" | grep -q .;;
  esac
}
trap '' INT TERM HUP
tac | while read -r kind name; do
  # What runs in or on it may be ending at this moment.
  for try in $(seq 100); do
    is_there "$kind" "$name" || break
    remove "$kind" "$name" || sleep 0.1
  done
done
`;

let input: Writable | undefined;

/** Has it removed after the end of this process, however it ends, unless it is gone by then. Removes in reverse order. */
export function removeAtEnd(kind: 'netns' | 'folder' | 'cgroup', name: string): void {
  input ??= startJanitor();
  input.write(`${kind} ${name}\n`);
}

function startJanitor(): Writable {
  // Out of reach of what ends the process; neither keeps the process running.
  const child = spawn('sh', ['-c', SCRIPT], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
  child.unref();
  // Only a socket can be unreferenced so that it does not keep the process running, and a pipe to a child is one.
  (child.stdin as Writable & { unref(): void }).unref();
  return child.stdin;
}
