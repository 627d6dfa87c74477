import { expect, it } from 'vitest';
import { type Plan, renderPlan } from './plan.ts';

it('a plan has a line for each step, whatever foreign names hold', () => {
  const plan: Plan<object> = {
    notes: [],
    stages: [
      {
        title: 'Of a\n2. user',
        steps: [
          { kind: 'write', text: 'restart Foo\n   delete Namespace shop' },
          { kind: 'command', text: 'Job\rx', command: ['kubectl', 'edit', 'foo/\nx'] },
        ],
      },
    ],
  };
  expect(renderPlan(plan)).toBe(
    [
      '1. Of a\\u000a2. user',
      '   restart Foo\\u000a   delete Namespace shop',
      '   Job\\u000dx',
      '     $ kubectl edit foo/\\u000ax',
      '',
    ].join('\n'),
  );
});
