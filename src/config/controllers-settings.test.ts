import { describe, expect, it } from 'vitest';
import { controllersSettings } from './controllers-settings.ts';

const running = (...given: Parameters<typeof controllersSettings>): string[] => [
  ...controllersSettings(...given).controllers.keys(),
];

describe('the controllers that run', () => {
  it('are all of them on etcd unless a setting switches one off, and those of endpoints and nodes on the API [auth-api]', () => {
    expect(running({}, 'kvv3')).toEqual(['policy', 'profile', 'workloadendpoint', 'node']);
    expect(running({}, 'kvv3', { controllers: { profile: { state: 'Disabled' } } })).toEqual([
      'policy',
      'workloadendpoint',
      'node',
    ]);
    expect(running({}, 'orch')).toEqual(['workloadendpoint', 'node']);
  });

  it('are those of ENABLED_CONTROLLERS rather than those of the ControllersConfiguration', () => {
    const env = { ENABLED_CONTROLLERS: 'policy,node' };
    expect(running(env, 'kvv3', { controllers: { policy: { state: 'Disabled' } } })).toEqual(['policy', 'node']);
  });
});
