import { expect, it } from 'vitest';
import { machineIn } from '../../../../test/support/ctl.ts';
import { inSimulatedTime } from '../../../../test/support/simulated-time.ts';
import { aborted } from '../../../base/until-aborted.ts';
import type { AgentQuestion } from '../../../install/host/host-ports.ts';
import { askAgentFacts } from './agent-facts.ts';

const CALLS = '{"version":"v1","calls":[]}';

it.each([
  ['show-calls', undefined],
  ['show-network', 'v1'],
])('calls an agent unreachable that does not answer %s within 3 s', async (hangsAt, version) => {
  const askAgent = async (_: string, { kind }: AgentQuestion, signal: AbortSignal): Promise<string> => {
    if (kind !== hangsAt) return CALLS;
    await aborted(signal);
    throw signal.reason;
  };
  const ports = { askAgent, machine: machineIn('/nonexistent'), readRegisteredName: () => 'node-a' };
  const { signal } = new AbortController();
  const facts = await inSimulatedTime(0, async () =>
    // Nothing listens on the discard port.
    askAgentFacts({ ports, signal }, { socket: '/nonexistent/socket', health: '127.0.0.1:9' }),
  );
  expect(facts).toMatchObject({ version, network: undefined });
  expect(facts.unreachable).toMatch('no answer within 3 s');
});
