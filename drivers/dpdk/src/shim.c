/* What Rust cannot call by itself: DPDK's inline functions, and structures
 * whose layout differs between its releases. Everything here is called once
 * for a burst, or beside the packet path; ffi.rs mirrors the structures. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_interrupts.h>
#include <rte_ip.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* Frames handed to the driver in one call. */
#define BURST 64

enum { RX_VERIFIED = 1 };
enum { TX_CHECKSUM = 1, TX_SEGMENT = 2, TX_STAMP = 4 };

struct near_frame {
	const uint8_t *data;
	uint32_t len;
	uint32_t flags;
};

struct near_slot {
	struct rte_mbuf *mbuf;
	uint8_t *data;
	uint16_t len;
	uint16_t flags;
	uint16_t transport; /* offset of the transport header */
	uint16_t segment;   /* payload bytes of each segment */
};

struct near_wish {
	uint16_t queues, rx_descriptors, tx_descriptors, mtu;
	int32_t domain; /* where the port tells none; -1 for any */
	uint32_t segmentation_limit; /* 0: none wanted */
	uint8_t checksum, vlan_strip, promiscuous, interrupts, stamps;
	uint8_t key_len; /* 0: the driver's own */
	uint8_t key[52];
};

struct near_facts {
	uint16_t queues, rx_descriptors, tx_descriptors, mtu;
	int32_t domain;
	uint32_t segmentation_limit;
	uint8_t rx_checksum, tx_checksum, vlan_strip, promiscuous, interrupts, stamps_all;
	uint8_t mac[6];
	uint8_t key_len; /* 0: flows are not spread by the port */
	uint8_t key[52];
	uint16_t reta_len;
	uint16_t reta[RTE_ETH_RSS_RETA_SIZE_512];
	uint64_t rss_fields;
	char driver[32];
	const char *step; /* where it failed */
};

struct near_counts {
	uint64_t missed, errors, no_buffer;
};

/* Bursts and the memory under them.
 *
 * When a peer of net_memif goes, DPDK's interrupt thread marks the port as
 * disconnected and unmaps the peer's memory, at once: a thread that is in the
 * middle of a burst, perhaps not running just then, would read what is gone.
 * So each burst is marked, and that thread's munmap waits for those under way;
 * later ones find the mark of the disconnection. */

#define GUARDED_QUEUES 256

static struct {
	volatile uint32_t busy;
} __rte_cache_aligned bursts[RTE_MAX_ETHPORTS][GUARDED_QUEUES];
static int fence_bursts; /* the kernel has no membarrier */

static inline void begin_burst(uint16_t port, uint16_t queue)
{
	bursts[port][queue % GUARDED_QUEUES].busy = 1;
	if (unlikely(fence_bursts))
		rte_mb();
	rte_compiler_barrier();
}

static inline void end_burst(uint16_t port, uint16_t queue)
{
	rte_smp_wmb();
	bursts[port][queue % GUARDED_QUEUES].busy = 0;
}

static void await_bursts(void)
{
	unsigned int port, queue;

	/* Every thread has then either marked its burst, or will see the disconnection. */
	rte_mb();
	if (!fence_bursts)
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	for (port = 0; port < RTE_MAX_ETHPORTS; port++)
		for (queue = 0; queue < GUARDED_QUEUES; queue++)
			while (bursts[port][queue].busy)
				sched_yield();
}

/* Takes the place of the C library's for DPDK's drivers, and for this program. */
int munmap(void *start, size_t len)
{
	if (rte_thread_is_intr())
		await_bursts();
	return (int)syscall(SYS_munmap, start, len);
}

/* The start. */

typedef void (*near_log_fn)(uint32_t level, const char *text, size_t len);

static ssize_t log_write(void *to, const char *text, size_t len)
{
	((near_log_fn)to)((uint32_t)rte_log_cur_msg_loglevel(), text, len);
	return (ssize_t)len;
}

int near_log_to(near_log_fn to)
{
	cookie_io_functions_t calls = { .write = log_write };
	FILE *stream = fopencookie((void *)to, "w", calls);

	if (stream == NULL)
		return -ENOMEM;
	setvbuf(stream, NULL, _IOLBF, 1024);
	return rte_openlog_stream(stream);
}

int near_start(int count, char **arguments)
{
	fence_bursts = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
	return rte_eal_init(count, arguments) < 0 ? -(rte_errno ? rte_errno : EINVAL) : 0;
}

const char *near_version(void)
{
	return rte_version();
}

const char *near_reason(int code)
{
	return rte_strerror(code < 0 ? -code : code);
}

/* A thread that DPDK knows keeps a cache of packet buffers for itself. */
int near_enter_thread(void)
{
	if (rte_lcore_id() != LCORE_ID_ANY)
		return 0;
	return rte_thread_register() < 0 ? -rte_errno : 1;
}

void near_leave_thread(void)
{
	rte_thread_unregister();
}

/* Ports. */

int near_attach(const char *device, const char *arguments, uint16_t *port)
{
	int failed = rte_dev_probe(arguments);

	if (failed)
		return failed;
	if (rte_eth_dev_get_port_by_name(device, port))
		return -ENOTSUP;
	return 0;
}

static void spread(uint16_t port, const struct rte_eth_dev_info *info, uint16_t queues)
{
	struct rte_eth_rss_reta_entry64 table[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE];
	uint16_t i, size = info->reta_size;

	if (size == 0 || size > RTE_ETH_RSS_RETA_SIZE_512)
		return;
	memset(table, 0, sizeof(table));
	for (i = 0; i < size; i++) {
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= 1ULL << (i % RTE_ETH_RETA_GROUP_SIZE);
		table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = i % queues;
	}
	/* One that cannot be set is spread as the driver does; it is read below. */
	rte_eth_dev_rss_reta_update(port, table, size);
}

static void read_spread(uint16_t port, const struct rte_eth_dev_info *info, struct near_facts *facts)
{
	struct rte_eth_rss_reta_entry64 table[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE];
	struct rte_eth_rss_conf rss;
	uint16_t i, size = info->reta_size;

	memset(&rss, 0, sizeof(rss));
	rss.rss_key = facts->key;
	rss.rss_key_len = info->hash_key_size;
	if (info->hash_key_size > sizeof(facts->key) || rte_eth_dev_rss_hash_conf_get(port, &rss))
		return;
	facts->key_len = info->hash_key_size ? info->hash_key_size : 40;
	facts->rss_fields = rss.rss_hf;
	if (size == 0 || size > RTE_ETH_RSS_RETA_SIZE_512)
		return;
	memset(table, 0, sizeof(table));
	for (i = 0; i < size; i++)
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= 1ULL << (i % RTE_ETH_RETA_GROUP_SIZE);
	if (rte_eth_dev_rss_reta_query(port, table, size))
		return;
	for (i = 0; i < size; i++)
		facts->reta[i] = table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	facts->reta_len = size;
}

static void choose(const struct near_wish *wish, const struct rte_eth_dev_info *info,
		   struct rte_eth_conf *conf, struct near_facts *facts)
{
	const uint64_t tcp = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP;
	const uint64_t sums = RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
	uint64_t rx = 0, tx = 0;

	if (wish->checksum) {
		rx |= info->rx_offload_capa & (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM);
		if ((info->tx_offload_capa & sums) == sums)
			tx |= info->tx_offload_capa & (sums | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM);
	}
	if (tx && wish->segmentation_limit)
		tx |= info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_TCP_TSO;
	if (wish->vlan_strip)
		rx |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
	if (wish->stamps) {
		rx |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
		/* Drivers' quick ways of sending look at no frame's flags; this keeps them from those. */
		tx |= info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	}
	tx |= info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	conf->rxmode.offloads = rx;
	conf->txmode.offloads = tx;
	conf->rxmode.mtu = wish->mtu;
	if (wish->queues > 1 && (info->flow_type_rss_offloads & tcp)) {
		conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf->rx_adv_conf.rss_conf.rss_hf = info->flow_type_rss_offloads & tcp;
		/* A driver takes keys of its own length only: what is longer is cut. */
		if (wish->key_len) {
			conf->rx_adv_conf.rss_conf.rss_key = (uint8_t *)(uintptr_t)wish->key;
			conf->rx_adv_conf.rss_conf.rss_key_len =
				info->hash_key_size ? info->hash_key_size : wish->key_len;
		}
	}
	conf->intr_conf.rxq = wish->interrupts;
	facts->rx_checksum = (rx & RTE_ETH_RX_OFFLOAD_TCP_CKSUM) != 0;
	facts->tx_checksum = (tx & RTE_ETH_TX_OFFLOAD_TCP_CKSUM) != 0;
	facts->vlan_strip = (rx & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0;
	facts->stamps_all = (rx & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0;
	facts->segmentation_limit = (tx & RTE_ETH_TX_OFFLOAD_TCP_TSO) ? wish->segmentation_limit : 0;
}

#define TRY(what, call) do { int tried = (call); if (tried < 0) { facts->step = (what); return tried; } } while (0)

/* Configures queues and offloads; near_queue and near_begin follow. */
int near_configure(uint16_t port, const struct near_wish *wish, struct near_facts *facts)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	struct rte_ether_addr mac;
	int failed;

	memset(facts, 0, sizeof(*facts));
	memset(&conf, 0, sizeof(conf));
	TRY("ask about the port", rte_eth_dev_info_get(port, &info));
	snprintf(facts->driver, sizeof(facts->driver), "%s", info.driver_name);
	facts->queues = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
	facts->step = "give the port that many queues";
	if (facts->queues < wish->queues)
		return -ENOSPC;
	facts->queues = wish->queues;
	facts->step = "take a key of that length: it is too short for the driver";
	if (wish->key_len && wish->key_len < info.hash_key_size)
		return -EINVAL;
	choose(wish, &info, &conf, facts);
	facts->interrupts = wish->interrupts;
	failed = rte_eth_dev_configure(port, wish->queues, wish->queues, &conf);
	if (failed && conf.intr_conf.rxq) {
		facts->interrupts = conf.intr_conf.rxq = 0;
		failed = rte_eth_dev_configure(port, wish->queues, wish->queues, &conf);
	}
	TRY("configure the port", failed);
	facts->rx_descriptors = wish->rx_descriptors;
	facts->tx_descriptors = wish->tx_descriptors;
	TRY("size the rings", rte_eth_dev_adjust_nb_rx_tx_desc(port, &facts->rx_descriptors, &facts->tx_descriptors));
	/* A driver without the call has no MTU of its own; one with it may set an interface's. */
	if (rte_eth_dev_get_mtu(port, &facts->mtu) || facts->mtu != wish->mtu) {
		failed = rte_eth_dev_set_mtu(port, wish->mtu);
		TRY("set the MTU", failed == -ENOTSUP ? 0 : failed);
	}
	/* net_tap does not cut into segments whose frames, header and all, are longer than its MTU. */
	facts->mtu = wish->mtu - (facts->segmentation_limit && !strcmp(facts->driver, "net_tap") ? RTE_ETHER_HDR_LEN : 0);
	facts->domain = rte_eth_dev_socket_id(port);
	if (facts->domain < 0)
		facts->domain = wish->domain;
	TRY("read the port's address", rte_eth_macaddr_get(port, &mac));
	memcpy(facts->mac, mac.addr_bytes, sizeof(facts->mac));
	facts->step = NULL;
	return 0;
}

struct rte_mempool *near_pool(const char *name, uint32_t count, uint32_t room, int32_t domain)
{
	return rte_pktmbuf_pool_create(name, count, RTE_MIN(256u, count / 4), 0, (uint16_t)(room + RTE_PKTMBUF_HEADROOM),
				       domain < 0 ? SOCKET_ID_ANY : domain);
}

uint32_t near_pool_in_use(const struct rte_mempool *pool)
{
	return rte_mempool_in_use_count(pool);
}

struct near_range {
	uintptr_t start;
	size_t len;
};

struct near_ranges {
	struct near_range *to;
	uint32_t count, limit;
};

static void note_range(struct rte_mempool *pool, void *opaque, struct rte_mempool_memhdr *chunk, unsigned int index)
{
	struct near_ranges *ranges = opaque;

	if (ranges->count < ranges->limit)
		ranges->to[ranges->count++] = (struct near_range){ (uintptr_t)chunk->addr, chunk->len };
}

uint32_t near_pool_memory(struct rte_mempool *pool, struct near_range *to, uint32_t limit)
{
	struct near_ranges ranges = { to, 0, limit };

	rte_mempool_mem_iter(pool, note_range, &ranges);
	return ranges.count;
}

void near_pool_free(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

int near_queue(uint16_t port, uint16_t queue, struct near_facts *facts, struct rte_mempool *rx)
{
	unsigned int domain = facts->domain < 0 ? SOCKET_ID_ANY : (unsigned int)facts->domain;

	TRY("set up a receive queue", rte_eth_rx_queue_setup(port, queue, facts->rx_descriptors, domain, NULL, rx));
	TRY("set up a transmit queue", rte_eth_tx_queue_setup(port, queue, facts->tx_descriptors, domain, NULL));
	return 0;
}

int near_begin(uint16_t port, const struct near_wish *wish, struct near_facts *facts)
{
	struct rte_eth_dev_info info;
	int failed;

	TRY("start the port", rte_eth_dev_start(port));
	TRY("ask about the port", rte_eth_dev_info_get(port, &info));
	if (wish->queues > 1) {
		spread(port, &info, wish->queues);
		read_spread(port, &info, facts);
	}
	/* Neighbour solicitations come to multicast addresses (RFC 4861 section 7.2.1).
	 * A driver without these calls receives everything. */
	rte_eth_allmulticast_enable(port);
	failed = wish->promiscuous ? rte_eth_promiscuous_enable(port) : rte_eth_promiscuous_disable(port);
	TRY("receive promiscuously", failed == -ENOTSUP || !wish->promiscuous ? 0 : failed);
	facts->promiscuous = rte_eth_promiscuous_get(port) == 1;
	return 0;
}

int near_set_mac(uint16_t port, const uint8_t *mac)
{
	struct rte_ether_addr address;

	memcpy(address.addr_bytes, mac, sizeof(address.addr_bytes));
	return rte_eth_dev_default_mac_addr_set(port, &address);
}

int near_is_up(uint16_t port)
{
	struct rte_eth_link link;

	memset(&link, 0, sizeof(link));
	return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

int near_counts(uint16_t port, struct near_counts *counts)
{
	struct rte_eth_stats stats;
	int failed = rte_eth_stats_get(port, &stats);

	if (failed)
		return failed;
	counts->missed = stats.imissed;
	counts->errors = stats.ierrors;
	counts->no_buffer = stats.rx_nombuf;
	return 0;
}

/* A descriptor that is readable when the queue has raised its interrupt. */
int near_interrupts(uint16_t port, uint16_t queue)
{
	int failed, epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0)
		return -errno;
	failed = rte_eth_dev_rx_intr_ctl_q(port, queue, epoll, RTE_INTR_EVENT_ADD, NULL);
	if (!failed)
		failed = rte_eth_dev_rx_intr_enable(port, queue);
	if (failed) {
		close(epoll);
		return failed < 0 ? failed : -EIO;
	}
	rte_eth_dev_rx_intr_disable(port, queue);
	return epoll;
}

void near_interrupt(uint16_t port, uint16_t queue, int on)
{
	if (on)
		rte_eth_dev_rx_intr_enable(port, queue);
	else
		rte_eth_dev_rx_intr_disable(port, queue);
}

/* Takes what made the descriptor readable. */
void near_interrupted(int epoll)
{
	struct rte_epoll_event event;

	rte_epoll_wait(epoll, &event, 1, 0);
}

static void end(uint16_t port)
{
	rte_eth_dev_stop(port);
}

static void close_port(uint16_t port)
{
	struct rte_eth_dev_info info;
	struct rte_device *device = rte_eth_dev_info_get(port, &info) ? NULL : info.device;

	rte_eth_dev_close(port);
	if (device)
		rte_dev_remove(device);
}

struct errand {
	void (*work)(uint16_t port);
	uint16_t port;
	sem_t done;
};

static void run_errand(void *opaque)
{
	struct errand *errand = opaque;

	errand->work(errand->port);
	sem_post(&errand->done);
}

/* DPDK's interrupt thread follows net_memif's peers. It takes no lock against
 * a port that another thread stops or closes meanwhile, and both free the
 * messages that wait for the peer (memif_disconnect in memif_socket.c). What
 * runs on that thread itself, as an alarm does, meets nothing half done. */
static void beside_no_peer(void (*work)(uint16_t port), uint16_t port)
{
	struct errand errand = { .work = work, .port = port };
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(port, &info) || strcmp(info.driver_name, "net_memif") != 0 ||
	    sem_init(&errand.done, 0, 0)) {
		work(port);
		return;
	}
	if (rte_eal_alarm_set(1, run_errand, &errand))
		work(port);
	else
		while (sem_wait(&errand.done) != 0)
			;
	sem_destroy(&errand.done);
}

void near_end(uint16_t port)
{
	beside_no_peer(end, port);
}

void near_close(uint16_t port)
{
	beside_no_peer(close_port, port);
}

/* The packet path. */

/* Takes up to `max` frames, at most BURST; `dropped` counts those of several
 * buffers that do not fit into one. */
uint16_t near_receive(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, struct near_frame *frames,
		      uint16_t max, uint64_t *dropped)
{
	uint16_t i, count, kept = 0;

	begin_burst(port, queue);
	count = rte_eth_rx_burst(port, queue, mbufs, max);
	end_burst(port, queue);
	for (i = 0; i < count; i++)
		rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void *));
	for (i = 0; i < count; i++) {
		struct rte_mbuf *mbuf = mbufs[i];
		const uint64_t sum = mbuf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;

		if (unlikely(mbuf->nb_segs != 1) && rte_pktmbuf_linearize(mbuf)) {
			rte_pktmbuf_free(mbuf);
			++*dropped;
			continue;
		}
		mbufs[kept] = mbuf;
		frames[kept].data = rte_pktmbuf_mtod(mbuf, const uint8_t *);
		frames[kept].len = mbuf->data_len;
		/* NONE: the sum is unfinished, and the data whole: from this machine. */
		frames[kept].flags = sum == RTE_MBUF_F_RX_L4_CKSUM_GOOD || sum == RTE_MBUF_F_RX_L4_CKSUM_NONE
			? RX_VERIFIED : 0;
		kept++;
	}
	return kept;
}

void near_free(struct rte_mbuf **mbufs, uint16_t count)
{
	rte_pktmbuf_free_bulk(mbufs, count);
}

/* Fills `count` slots, or none. */
int near_slots(struct rte_mempool *pool, struct near_slot *slots, uint16_t count)
{
	struct rte_mbuf *mbufs[BURST];
	uint16_t i;

	if (count > BURST || rte_pktmbuf_alloc_bulk(pool, mbufs, count))
		return -ENOBUFS;
	for (i = 0; i < count; i++) {
		slots[i].mbuf = mbufs[i];
		slots[i].data = rte_pktmbuf_mtod(mbufs[i], uint8_t *);
	}
	return 0;
}

void near_drop_slots(struct near_slot *slots, uint16_t count)
{
	uint16_t i;

	for (i = 0; i < count; i++)
		rte_pktmbuf_free(slots[i].mbuf);
}

static void leave_to_port(struct rte_mbuf *mbuf, const struct near_slot *slot)
{
	uint8_t *frame = slot->data;
	const uint16_t type = (uint16_t)(frame[12] << 8 | frame[13]);
	const uint16_t l2 = type == RTE_ETHER_TYPE_VLAN ? 18 : 14;
	const int v4 = (frame[l2] >> 4) == 4;
	const int udp = (v4 ? frame[l2 + 9] : frame[l2 + 6]) == IPPROTO_UDP;

	mbuf->l2_len = l2;
	mbuf->l3_len = slot->transport - l2;
	mbuf->l4_len = udp ? 8 : (frame[slot->transport + 12] >> 4) * 4;
	mbuf->ol_flags = v4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6;
	mbuf->ol_flags |= udp ? RTE_MBUF_F_TX_UDP_CKSUM : RTE_MBUF_F_TX_TCP_CKSUM;
	if (slot->flags & TX_SEGMENT) {
		uint16_t sum;

		mbuf->tso_segsz = slot->segment;
		mbuf->ol_flags |= RTE_MBUF_F_TX_TCP_SEG | (v4 ? RTE_MBUF_F_TX_IP_CKSUM : 0);
		/* The length changes with the cutting: it is left out of the sum here, and each
		 * header's sum is made anew. */
		if (v4) {
			frame[l2 + 10] = frame[l2 + 11] = 0;
			sum = rte_ipv4_phdr_cksum((struct rte_ipv4_hdr *)(frame + l2), mbuf->ol_flags);
		} else {
			sum = rte_ipv6_phdr_cksum((struct rte_ipv6_hdr *)(frame + l2), mbuf->ol_flags);
		}
		memcpy(frame + slot->transport + 16, &sum, sizeof(sum));
	}
}

/* Hands over up to `count` committed slots, in order, at most BURST; returns
 * how many the port took. `refused`: the next one it never will. */
uint16_t near_send(uint16_t port, uint16_t queue, const struct near_slot *slots, uint16_t count, int prepare,
		   int *refused)
{
	struct rte_mbuf *mbufs[BURST];
	uint16_t i, sent, ready;

	if (count > BURST)
		count = BURST;
	for (i = 0; i < count; i++) {
		struct rte_mbuf *mbuf = slots[i].mbuf;

		mbuf->data_len = slots[i].len;
		mbuf->pkt_len = slots[i].len;
		if (slots[i].flags & TX_CHECKSUM)
			leave_to_port(mbuf, &slots[i]);
		if (slots[i].flags & TX_STAMP)
			mbuf->ol_flags |= RTE_MBUF_F_TX_IEEE1588_TMST;
		mbufs[i] = mbuf;
	}
	ready = prepare ? rte_eth_tx_prepare(port, queue, mbufs, count) : count;
	begin_burst(port, queue);
	sent = rte_eth_tx_burst(port, queue, mbufs, ready);
	end_burst(port, queue);
	*refused = sent == ready && ready < count;
	return sent;
}
