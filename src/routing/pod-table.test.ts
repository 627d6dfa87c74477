import { describe, expect, it } from 'vitest';
import { renderPodTable } from './pod-table.ts';

describe('the table of what pods may send', () => {
  it('is as the golden file shows it', async () => {
    const table = `${JSON.stringify(renderPodTable('strict'), undefined, 2)}\n`;
    await expect(table).toMatchFileSnapshot('../../test/golden/pod-table.json');
  });

  it('drops loopback addresses alone when sources are not checked', () => {
    const [strict, off] = [renderPodTable('strict'), renderPodTable('off')];
    expect(off.objects).toEqual(strict.objects.slice(0, 3));
    expect(JSON.stringify(off)).not.toContain('fib');
  });
});
