import { exec } from '../base/exec.ts';
import type { ExecDelegate } from '../cni/delegate.ts';
import type { PluginDependencies } from '../cni/run-plugin.ts';

/** Runs delegated plugins with the call's CNI environment, and forwards their stderr. */
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
