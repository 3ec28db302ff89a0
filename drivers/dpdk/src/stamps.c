/* Stamps of frames by a port's own clock: what rte_eth_timesync_… and the field
 * of received frames tell. ffi.rs mirrors the structure. */

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mempool.h>

/* What a port said when it was asked: 0, or a code. */
struct near_stamping {
	int32_t enabled, clock, departures, taken;
};

/* Where drivers leave the stamp of a frame that came, and the flag of those that have one. */
static int stamp_field = -1;
static uint64_t stamp_flag;

static uint64_t nanos(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
}

/* Of all ports, and of drivers that have not done so. */
int near_expect_stamps(void)
{
	return stamp_field < 0 ? rte_mbuf_dyn_rx_timestamp_register(&stamp_field, &stamp_flag) : 0;
}

/* Switches stamps of a started port on, and finds out what it has. */
void near_stamp(uint16_t port, struct rte_mempool *pool, struct near_stamping *found)
{
	struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
	struct timespec time;
	int count;

	memset(found, 0, sizeof(*found));
	found->enabled = rte_eth_timesync_enable(port);
	found->clock = rte_eth_timesync_read_time(port, &time);
	/* There is none yet, which is no failure; what was left from before goes. */
	found->departures = rte_eth_timesync_read_tx_timestamp(port, &time) == -ENOTSUP ? -ENOTSUP : 0;
	for (count = 0; count < 4; count++)
		rte_eth_timesync_read_rx_timestamp(port, &time, (uint32_t)count);
	if (mbuf == NULL) {
		found->taken = -ENOMEM;
		return;
	}
	/* Looked at and not sent: a driver that was built without stamps of departures refuses it. */
	memset(rte_pktmbuf_mtod(mbuf, void *), 0, RTE_ETHER_MIN_LEN);
	mbuf->data_len = RTE_ETHER_MIN_LEN;
	mbuf->pkt_len = RTE_ETHER_MIN_LEN;
	mbuf->ol_flags = RTE_MBUF_F_TX_IEEE1588_TMST;
	rte_errno = 0;
	if (rte_eth_tx_prepare(port, 0, &mbuf, 1) != 1)
		found->taken = -(rte_errno ? rte_errno : ENOTSUP);
	rte_pktmbuf_free(mbuf);
}

void near_stamp_no_more(uint16_t port)
{
	rte_eth_timesync_disable(port);
}

int near_clock(uint16_t port, uint64_t *now)
{
	struct timespec time;
	int failed = rte_eth_timesync_read_time(port, &time);

	*now = failed ? 0 : nanos(&time);
	return failed;
}

/* A clock in the device's own unit, and nanoseconds of the processor's counter. */
int near_counter(uint16_t port, uint64_t *now, uint64_t *beside)
{
	*beside = (uint64_t)((double)rte_get_tsc_cycles() * 1e9 / (double)rte_get_tsc_hz());
	return rte_eth_read_clock(port, now);
}

/* When the last frame left that was to be stamped; it is told once. */
int near_departure(uint16_t port, uint64_t *stamp)
{
	struct timespec time;

	if (rte_eth_timesync_read_tx_timestamp(port, &time))
		return 0;
	*stamp = nanos(&time);
	return 1;
}

/* When these frames came; UINT64_MAX for those without a stamp. */
void near_arrivals(uint16_t port, struct rte_mbuf **mbufs, uint16_t count, uint64_t *stamps)
{
	struct timespec time;
	uint16_t i;

	for (i = 0; i < count; i++) {
		const struct rte_mbuf *mbuf = mbufs[i];

		stamps[i] = UINT64_MAX;
		if (mbuf->ol_flags & stamp_flag)
			stamps[i] = *RTE_MBUF_DYNFIELD(mbuf, stamp_field, const rte_mbuf_timestamp_t *);
		/* Only the frame that the port says it stamped: others' stamps may lie there, too. */
		else if ((mbuf->ol_flags & RTE_MBUF_F_RX_IEEE1588_TMST) &&
			 !rte_eth_timesync_read_rx_timestamp(port, &time, mbuf->timesync))
			stamps[i] = nanos(&time);
	}
}
