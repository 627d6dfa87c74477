import { expect, it } from 'vitest';
import type { LeasedServer } from '../../stream/server-lease.ts';
import { connectedAgents } from './server-leases.ts';

const server = (clients: number, renewed: string): LeasedServer => ({
  entry: { name: 'x', addresses: [], port: 5473, certificate: '', formats: { oldest: 1, newest: 1 }, isLeaving: false },
  release: 'v1.0.0',
  clients,
  oldestClient: undefined,
  renewedMs: Date.parse(renewed),
});

it('counts the agents of servers that renew their Leases as the last one does', () => {
  const servers = [
    server(400, '2026-11-29T12:00:30Z'),
    server(380, '2026-11-29T12:00:21Z'),
    server(220, '2026-11-29T11:59:00Z'),
  ];
  expect(connectedAgents(servers)).toBe(780);
  expect(connectedAgents([])).toBe(0);
});
