import { describe, expect, it } from 'vitest';
import { GrpcCode, GrpcError } from './grpc.ts';
import { EndedAfterHandshake } from '../../base/http2/ended-after-handshake.ts';
import { etcdError, judge, judgeText } from './translate-error.ts';

const failed = (code: string, message = code): Error => Object.assign(new Error(message), { code });
const answered = (code: number, message: string): GrpcError => new GrpcError(message, code);

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
    [new EndedAfterHandshake(new Error('ended')), 'store/refused'],
    ['not even an error', 'store/unavailable'],
    [undefined, 'store/unavailable'],
    [answered(GrpcCode.Unavailable, 'etcdserver: no leader'), 'store/unavailable'],
    [answered(GrpcCode.DeadlineExceeded, 'late'), 'store/unavailable'],
    [answered(GrpcCode.ResourceExhausted, 'etcdserver: mvcc: database space exceeded'), 'store/unavailable'],
    [answered(GrpcCode.PermissionDenied, 'etcdserver: permission denied'), 'store/refused'],
    [answered(GrpcCode.Unauthenticated, 'etcdserver: invalid auth token'), 'store/refused'],
    [answered(GrpcCode.InvalidArgument, 'etcdserver: user name is empty'), 'store/refused'],
    [answered(GrpcCode.FailedPrecondition, 'etcdserver: user name not found'), 'store/refused'],
    [answered(GrpcCode.InvalidArgument, 'etcdserver: too many operations in txn request'), 'internal/invariant'],
    [answered(GrpcCode.Unimplemented, 'unknown service'), 'store/unavailable'],
    [answered(GrpcCode.Canceled, 'http/2 stream closed with error code CANCEL (0x8)'), 'store/unavailable'],
  ])('%s becomes %s', (cause, code) => {
    expect(judge(cause).code).toBe(code);
  });

  it.each([
    ['rpc error: code = PermissionDenied desc = etcdserver: permission denied', 'store/refused'],
    ['etcdserver: no leader', 'store/unavailable'],
  ])('ends a watch with "%s" as %s', (reason, code) => {
    expect(judgeText(reason).code).toBe(code);
  });

  it('carries the reason and where it happened', () => {
    const cause = failed('ECONNREFUSED', 'connect refused');
    expect(etcdError(judge(cause), 'at http://a:1', cause)).toMatchObject({
      message: 'Cannot use the kv datastore at http://a:1: connect refused',
      cause,
    });
  });
});
