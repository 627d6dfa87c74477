import { describe, expect, it } from 'vitest';
import { chooseConnection, type ConnectionInputs } from './choose-connection.ts';

const HOME_FILE = '/home/me/.kube/config';
const choose = (
  env: Record<string, string>,
  { file, context, ...machine }: Partial<ConnectionInputs['flags'] & ConnectionInputs> = {},
): ReturnType<typeof chooseConnection> =>
  chooseConnection({ flags: { file, context }, env, homeFile: undefined, isInCluster: false, ...machine });
const ORCH = { datastore_type: 'orch' };
const listed = { paths: ['/k1', 'k2'], namedBy: 'KUBECONFIG', ifMissing: 'skip', context: undefined };

describe('the connection of netplugctl without flags', () => {
  it('is the defaults when no variable is set, even where ~/.kube/config or a pod account exists', () => {
    expect(choose({}, { homeFile: HOME_FILE, isInCluster: true })).toMatchObject({ raw: {}, kubeconfig: undefined });
  });

  it('is the API server of KUBECONFIG when no variable of netplugctl is set', () => {
    expect(choose({ KUBECONFIG: '/k1:k2', KV_ENDPOINTS: '' })).toEqual({
      raw: ORCH,
      kubeconfig: listed,
      from: 'KUBECONFIG "/k1", "k2"',
    });
  });

  it('ignores empty and repeated entries of KUBECONFIG, and a KUBECONFIG with nothing else', () => {
    expect(choose({ KUBECONFIG: ':/k1::k2:/k1:' }).kubeconfig).toEqual(listed);
    expect(choose({ KUBECONFIG: '::' })).toMatchObject({ raw: {}, kubeconfig: undefined });
  });

  it.each<[Record<string, string>]>([
    [{ KV_ENDPOINTS: 'http://a:1' }],
    [{ DATASTORE_TYPE: 'kvv3' }],
    [{ ORCHCONFIG: '/own' }],
    [{ DATASTORE_TYPE: 'orch', ORCHCONFIG: '/own' }],
    [{ DATASTORE_TYPE: 'orch', ORCH_API_ROOT: 'http://a:1' }],
  ])('prefers the variables of netplugctl to KUBECONFIG: %o', (own) => {
    const raw = Object.fromEntries(Object.entries(own).map(([name, value]) => [name.toLowerCase(), value]));
    expect(choose({ ...own, KUBECONFIG: '/k1' }, { homeFile: HOME_FILE })).toEqual({
      raw,
      kubeconfig: undefined,
      from: 'the environment',
    });
  });

  it('prefers KUBECONFIG, then the account of the pod, then ~/.kube/config for DATASTORE_TYPE=orch without access', () => {
    const all = { homeFile: HOME_FILE, isInCluster: true };
    const env = { DATASTORE_TYPE: 'orch', KV_ENDPOINTS: 'http://a:1' };
    expect(choose({ ...env, KUBECONFIG: '/k1:k2' }, all)).toMatchObject({
      raw: { ...ORCH, kv_endpoints: 'http://a:1' },
      kubeconfig: listed,
    });
    expect(choose(env, all).kubeconfig).toBeUndefined();
    expect(choose(env, { ...all, isInCluster: false }).kubeconfig).toMatchObject({ paths: [HOME_FILE] });
    expect(choose(env).kubeconfig).toBeUndefined();
  });
});

describe('the connection of netplugctl with --kubeconfig or --context', () => {
  const env = { DATASTORE_TYPE: 'kvv3', KV_ENDPOINTS: 'http://a:1', ORCH_API_ROOT: 'http://a:1', KUBECONFIG: '/k1:k2' };

  it('is the API server of the file of --kubeconfig, regardless of variables', () => {
    expect(choose({ ...env, ORCHCONFIG: '/own' }, { file: 'a:b', context: 'prod' })).toEqual({
      raw: ORCH,
      kubeconfig: { paths: ['a:b'], namedBy: '--kubeconfig', ifMissing: 'refuse', context: 'prod' },
      from: '--kubeconfig "a:b", context "prod"',
    });
  });

  it('takes the context of --context from ORCHCONFIG, else KUBECONFIG, else ~/.kube/config', () => {
    const more = { context: 'prod', homeFile: HOME_FILE, isInCluster: true };
    const paths = (vars: Record<string, string>): unknown => choose(vars, more).kubeconfig;
    expect(paths({ ...env, ORCHCONFIG: '/own' })).toMatchObject({ paths: ['/own'], context: 'prod' });
    expect(paths(env)).toEqual({ ...listed, context: 'prod' });
    expect(paths({ KV_ENDPOINTS: 'http://a:1' })).toMatchObject({ paths: [HOME_FILE], context: 'prod' });
    expect(choose(env, more).raw).toEqual(ORCH);
  });

  it('refuses --context where no kubeconfig exists', () => {
    expect(() => choose({ DATASTORE_TYPE: 'orch' }, { context: 'prod', isInCluster: true })).toThrowError(
      expect.objectContaining({
        code: 'store/config-invalid',
        message: expect.stringContaining('there is no kubeconfig with context "prod"') as string,
        hint: 'Set KUBECONFIG, or name the kubeconfig with --kubeconfig FILE',
      }),
    );
  });
});
