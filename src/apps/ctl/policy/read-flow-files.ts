import { NetplugError } from '../../../base/errors.ts';
import { readShownFlows, type ShownFlow } from '../../../model/shown-flows.ts';
import { values } from '../command.ts';
import { readSource } from '../inputs.ts';

export const FLOW_FILES = {
  flows: values('file', 'file that "policy flows -o json" wrote on a node; may be repeated', { completes: 'file' }),
};

/** Returns the flows of all files. @throws cli/usage for a file without flows */
export async function readFlowFiles(files: readonly string[]): Promise<readonly ShownFlow[]> {
  const flows: ShownFlow[] = [];
  for (const file of files) {
    const { text } = await readSource(file);
    const shown = readShownFlows(text);
    if (shown === undefined) {
      throw new NetplugError('cli/usage', `Cannot read flows from "${file}": found another document`, {
        hint: 'Write the file with "netplugctl policy flows --since 1h -o json"',
      });
    }
    flows.push(...shown.flows);
  }
  return flows;
}
