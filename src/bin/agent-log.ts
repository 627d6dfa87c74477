/** Log settings of the agent and its network process: stderr only. */
export const AGENT_LOG = {
  level: 'INFO',
  filePath: undefined,
  fileMaxSizeMb: 100,
  fileMaxAgeDays: 30,
  fileMaxCount: 10,
} as const;
