package cluster

import "time"

// farApart is the difference from the database's clock above which a warning is logged.
const farApart = 10 * time.Second

// Now is the time by the clock of the database, which all replicas share, estimated from the last heartbeat. If the
// clocks differ by less than a second, it is the time of this machine.
func (m *Members) Now() time.Time {
	now := m.o.Clock()
	if offset := time.Duration(m.offset.Load()); offset.Abs() >= time.Second {
		return now.Round(0).Add(offset)
	}
	return now
}

// setClock notes how far the database's clock is ahead of this machine's.
func (m *Members) setClock(offset time.Duration) {
	before := time.Duration(m.offset.Swap(int64(offset)))
	switch far, was := offset.Abs() >= farApart, before.Abs() >= farApart; {
	case far && !was:
		m.log.Warn("the clock of this machine differs from that of the database: sessions and requests between replicas use the database's", "ahead", (-offset).Round(time.Second).String())
	case was && !far:
		m.log.Info("the clock of this machine agrees with that of the database again")
	}
}
