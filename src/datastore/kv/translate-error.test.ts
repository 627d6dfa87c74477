import { Code, ConnectError } from '@connectrpc/connect';
import { describe, expect, it } from 'vitest';
import { EndedAfterHandshake } from './http2-connection.ts';
import { etcdError, judge, judgeText } from './translate-error.ts';

const failed = (code: string, message = code): Error => Object.assign(new Error(message), { code });
const answered = (code: Code, message: string): ConnectError => new ConnectError(message, code);

describe('an error of the kv transport', () => {
  it.each([
    [failed('ECONNREFUSED'), 'store/unavailable'],
    [failed('ECONNRESET'), 'store/unavailable'],
    [failed('ENOTFOUND'), 'store/unavailable'],
    [failed('CERT_HAS_EXPIRED'), 'store/refused'],
    [failed('ERR_TLS_CERT_ALTNAME_INVALID'), 'store/refused'],
    [failed('UNABLE_TO_VERIFY_LEAF_SIGNATURE'), 'store/refused'],
    [failed('SELF_SIGNED_CERT_IN_CHAIN'), 'store/refused'],
    [failed('ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED'), 'store/refused'],
    [new Error('outer', { cause: failed('CERT_HAS_EXPIRED') }), 'store/refused'],
    [new AggregateError([failed('ECONNREFUSED'), failed('ECONNREFUSED')]), 'store/unavailable'],
    [new EndedAfterHandshake('ended'), 'store/refused'],
    ['not even an error', 'store/unavailable'],
    [undefined, 'store/unavailable'],
    [answered(Code.Unavailable, 'etcdserver: no leader'), 'store/unavailable'],
    [answered(Code.DeadlineExceeded, 'late'), 'store/unavailable'],
    [answered(Code.ResourceExhausted, 'etcdserver: mvcc: database space exceeded'), 'store/unavailable'],
    [answered(Code.PermissionDenied, 'etcdserver: permission denied'), 'store/refused'],
    [answered(Code.Unauthenticated, 'etcdserver: invalid auth token'), 'store/refused'],
    [answered(Code.InvalidArgument, 'etcdserver: user name is empty'), 'store/refused'],
    [answered(Code.FailedPrecondition, 'etcdserver: user name not found'), 'store/refused'],
    [answered(Code.InvalidArgument, 'etcdserver: too many operations in txn request'), 'internal/invariant'],
    [answered(Code.Unimplemented, 'unknown service'), 'store/unavailable'],
    [answered(Code.Canceled, 'http/2 stream closed with error code CANCEL (0x8)'), 'store/unavailable'],
  ])('%s becomes %s', (cause, code) => {
    expect(judge(cause).code).toBe(code);
  });

  it.each([
    ['rpc error: code = PermissionDenied desc = etcdserver: permission denied', 'store/refused'],
    ['etcdserver: no leader', 'store/unavailable'],
  ])('that ends a watch with "%s" is %s', (reason, code) => {
    expect(judgeText(reason).code).toBe(code);
  });

  it('carries the innermost reason and where it happened', () => {
    const cause = new ConnectError(
      'outer',
      Code.Unavailable,
      undefined,
      undefined,
      failed('ECONNREFUSED', 'connect refused'),
    );
    expect(etcdError(judge(cause), 'at http://a:1', cause)).toMatchObject({
      message: 'Cannot use the kv datastore at http://a:1: connect refused',
      cause,
    });
  });
});
