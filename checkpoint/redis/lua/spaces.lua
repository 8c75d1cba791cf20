return call('SMEMBERS', T .. ':s')
