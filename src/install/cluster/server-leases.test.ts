import { expect, it } from 'vitest';
import type { ApiObject } from '../../kube/objects.ts';
import { connectedAgents } from './server-leases.ts';

const lease = (clients: string | undefined, renewTime: string): ApiObject => ({
  metadata: { name: 'x', ...(clients === undefined ? {} : { annotations: { 'netplug.io/clients': clients } }) },
  spec: { renewTime },
});

it('counts the agents of servers that have renewed their Lease within a minute of the last one', () => {
  const leases = [
    lease('400', '2026-11-29T12:00:30.000000Z'),
    lease('380', '2026-11-29T12:00:21.000000Z'),
    lease('220', '2026-11-29T11:59:00.000000Z'),
    lease(undefined, '2026-11-29T12:00:30.000000Z'),
    lease('many', '2026-11-29T12:00:30.000000Z'),
  ];
  expect(connectedAgents(leases)).toBe(780);
  expect(connectedAgents([])).toBe(0);
});
