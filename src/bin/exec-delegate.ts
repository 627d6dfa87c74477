import { exec } from '../base/exec.ts';
import type { ExecDelegate } from '../cni/delegate.ts';
import type { PluginDependencies } from '../cni/run-plugin.ts';

/** Returns a function that runs delegated plugins with the CNI environment of the call and forwards their stderr. */
export function execDelegateIn(
  env: NodeJS.ProcessEnv,
  writeStderr: (text: string) => void = (text) => process.stderr.write(text),
): PluginDependencies['execDelegateFor'] {
  return (attachment) => {
    const other =
      attachment === undefined
        ? {}
        : { CNI_CONTAINERID: attachment.containerId, CNI_IFNAME: attachment.ifName, CNI_NETNS: '' };
    const run: ExecDelegate = async (file, { command, stdin, signal }) => {
      const result = await exec(file, [], { env: { ...env, ...other, CNI_COMMAND: command }, stdin, signal });
      writeStderr(result.stderr);
      return result;
    };
    return run;
  };
}
