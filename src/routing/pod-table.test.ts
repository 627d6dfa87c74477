import { describe, expect, it } from 'vitest';
import { renderPodTable } from './pod-table.ts';

describe('the pod filter table', () => {
  it('matches the golden file', async () => {
    const table = `${JSON.stringify(renderPodTable('strict'), undefined, 2)}\n`;
    await expect(table).toMatchFileSnapshot('../../test/golden/pod-table.json');
  });

  it('drops only loopback addresses when the source check is off', () => {
    const [strict, off] = [renderPodTable('strict'), renderPodTable('off')];
    expect(off.objects).toEqual(strict.objects.slice(0, 3));
    expect(JSON.stringify(off)).not.toContain('fib');
  });
});
