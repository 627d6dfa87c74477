// Made by scripts/check-generated.ts from manifests/rbac.yaml: change the roles there.
export const ROLES = {
  "netplug-cni-reader": [
    {
      "group": "",
      "resources": [
        "pods",
        "namespaces",
        "nodes"
      ],
      "verbs": [
        "get"
      ]
    },
    {
      "group": "",
      "resources": [
        "events"
      ],
      "verbs": [
        "create"
      ]
    }
  ],
  "netplug-cni-datastore": [
    {
      "group": "",
      "resources": [
        "pods"
      ],
      "verbs": [
        "get",
        "list"
      ]
    },
    {
      "group": "",
      "resources": [
        "pods/status"
      ],
      "verbs": [
        "patch"
      ]
    },
    {
      "group": "",
      "resources": [
        "nodes"
      ],
      "verbs": [
        "get"
      ]
    },
    {
      "group": "netplug.io",
      "resources": [
        "ippools",
        "ipreservations",
        "ipamconfigurations"
      ],
      "verbs": [
        "get",
        "list"
      ]
    },
    {
      "group": "netplug.io",
      "resources": [
        "clusterinformations"
      ],
      "verbs": [
        "get"
      ]
    },
    {
      "group": "netplug.io",
      "resources": [
        "ipblocks"
      ],
      "verbs": [
        "get",
        "list",
        "create",
        "update",
        "delete"
      ]
    }
  ],
  "netplug-agent": [
    {
      "group": "",
      "resources": [
        "pods",
        "namespaces",
        "nodes"
      ],
      "verbs": [
        "list",
        "watch"
      ]
    },
    {
      "group": "",
      "resources": [
        "nodes/status"
      ],
      "verbs": [
        "patch"
      ]
    },
    {
      "group": "netplug.io",
      "resources": [
        "ippools",
        "ipreservations",
        "ipamconfigurations",
        "bgpconfigurations",
        "bgppeers",
        "ipblocks"
      ],
      "verbs": [
        "list",
        "watch"
      ]
    },
    {
      "group": "netplug.io",
      "resources": [
        "clusterinformations"
      ],
      "verbs": [
        "get",
        "list",
        "watch",
        "create",
        "update"
      ]
    }
  ],
  "netplug-admin": [
    {
      "group": "",
      "resources": [
        "pods"
      ],
      "verbs": [
        "get",
        "list"
      ]
    },
    {
      "group": "",
      "resources": [
        "pods/status"
      ],
      "verbs": [
        "patch"
      ]
    },
    {
      "group": "",
      "resources": [
        "namespaces"
      ],
      "verbs": [
        "get"
      ]
    },
    {
      "group": "",
      "resources": [
        "nodes"
      ],
      "verbs": [
        "get",
        "list",
        "watch"
      ]
    },
    {
      "group": "netplug.io",
      "resources": [
        "ippools",
        "ipreservations",
        "ipamconfigurations",
        "bgpconfigurations",
        "bgppeers",
        "ipblocks"
      ],
      "verbs": [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete"
      ]
    },
    {
      "group": "netplug.io",
      "resources": [
        "hostendpoints",
        "networkpolicies",
        "globalnetworkpolicies",
        "profiles",
        "networksets",
        "globalnetworksets",
        "agentconfigurations",
        "controllersconfigurations",
        "installations"
      ],
      "verbs": [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete"
      ]
    },
    {
      "group": "apiextensions.k8s.io",
      "resources": [
        "customresourcedefinitions"
      ],
      "verbs": [
        "get"
      ]
    },
    {
      "group": "netplug.io",
      "resources": [
        "clusterinformations"
      ],
      "verbs": [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete"
      ]
    },
    {
      "group": "",
      "resources": [
        "nodes/status"
      ],
      "verbs": [
        "patch"
      ]
    }
  ]
} as const;
