import type { Program } from '../cni/call-record.ts';
import { runPlugin } from '../cni/run-plugin.ts';
import { VERSION } from '../base/version.ts';
import { exportTrace } from './export-trace.ts';
import { interruptions } from './interruptions.ts';
import { pluginDependencies } from './plugin-dependencies.ts';
import { readStdin } from './read-stdin.ts';

/** Serves one call of the runtime with the real dependencies. */
export async function runCni(program: Program): Promise<void> {
  const { env } = process;
  if ((env['CNI_COMMAND'] ?? '') === '') {
    process.stderr.write(`${program} ${VERSION}: a CNI plugin, called by a container runtime with CNI_COMMAND set\n`);
    process.exitCode = 0;
    return;
  }
  const served = await runPlugin(program, pluginDependencies({ env, interrupted: interruptions(), readStdin }));
  process.stdout.write(served.stdout);
  process.exitCode = served.status;
  await exportTrace(served, env);
}
