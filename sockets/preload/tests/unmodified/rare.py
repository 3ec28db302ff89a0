# Calls that are rarely made, with arguments that are rarely given: a line for each, with what it came to.
# The arguments are the peer's address and our own.
import ctypes, errno, os, resource, select, signal, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
PEER, OWN = sys.argv[1], sys.argv[2]
RESET, CLOSED, HOLD, ENDS, CALLS, TELLS_ABC = 8105, 8109, 8108, 8110, 8111, 8112
AF_INET, STREAM = 2, 1
SOL, IP, TCP, IPV6 = 1, 0, 6, 41
NULL, WILD = None, ctypes.c_void_p(0x10)
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
SIZE, size = ctypes.c_size_t, ctypes.c_int

def called(name, *arguments):
    """What a call came to: its result, or its error's name."""
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    return result if result >= 0 else errno.errorcode.get(ctypes.get_errno(), ctypes.get_errno())

for name in ('recv', 'send', 'read', 'write', 'readv', 'writev', 'recvmsg', 'sendmsg', 'recvfrom', 'sendto', 'pread',
             'pwrite', 'preadv', 'pwritev', 'sendfile', 'splice', 'lseek', 'tee', 'vmsplice'):
    getattr(libc, name).restype = ctypes.c_ssize_t

def say(state, what, *came):
    print(state + ':', what + ':', *came, flush=True)

def address(ip, port, family=AF_INET):
    return struct.pack('=H', family) + struct.pack('>H', port) + bytes(map(int, ip.split('.'))) + bytes(8)

def fresh():
    return libc.socket(AF_INET, STREAM, 0)

def connected(port=HOLD):
    fd = fresh()
    name = address(PEER, port)
    assert called('connect', fd, name, len(name)) == 0, ctypes.get_errno()
    return fd

def until(is_so):
    end = time.monotonic() + 30
    while time.monotonic() < end and not is_so():
        time.sleep(0.002)

def events(fd, asked=select.POLLIN):
    entry = ctypes.create_string_buffer(struct.pack('ihh', fd, asked, 0), 8)
    libc.poll(entry, 1, 0)
    return struct.unpack('ihh', entry)[2]

def nonblocking(fd):
    libc.fcntl(fd, 4, os.O_RDWR | os.O_NONBLOCK)
    return fd

# Each state that a socket is in, anew for each group of calls.
def listening():
    fd = fresh()
    name = address(OWN, 0)
    assert called('bind', fd, name, len(name)) == 0 and called('listen', fd, 5) == 0
    nonblocking(fd)
    # From now on it is looked for connections of it.
    events(fd)
    return fd
def ended():
    # The peer has ended the connection.
    fd = connected(ENDS)
    until(lambda: events(fd, 0x2001) & 0x2000)
    return nonblocking(fd)
def reset():
    fd = connected(RESET)
    called('send', fd, b'x', 1, 0)
    until(lambda: events(fd) & select.POLLERR)
    return nonblocking(fd)
def reset_and_read():
    fd = reset()
    called('recv', fd, ctypes.create_string_buffer(1), 1, 0)
    return fd
def shut():
    fd = connected(HOLD)
    called('shutdown', fd, 2)
    return nonblocking(fd)
def half_shut():
    fd = connected(HOLD)
    called('shutdown', fd, 1)
    return nonblocking(fd)
def refused():
    fd = nonblocking(fresh())
    name = address(PEER, CLOSED)
    called('connect', fd, name, len(name))
    until(lambda: events(fd) & select.POLLHUP)
    return fd
def with_data():
    fd = connected(TELLS_ABC)
    until(lambda: events(fd) & select.POLLIN)
    return nonblocking(fd)
def quiet():
    return nonblocking(connected())
STATES = dict(quiet=quiet, listening=listening, ended=ended, reset=reset, reset_and_read=reset_and_read, shut=shut,
              half_shut=half_shut, refused=refused, with_data=with_data)

def each(what, act, states=STATES):
    for state, make in STATES.items():
        if state in states:
            fd = make()
            for label, *came in act(fd):
                say(state, what + ' ' + label, *came)
            # A connection that lingers is the next one's affair.
            called('setsockopt', fd, SOL, 13, struct.pack('ii', 1, 0), 8)
            called('close', fd)

buffer = ctypes.create_string_buffer(1 << 16)

def info(fd):
    # The state of TCP (TCP_INFO).
    place, length = ctypes.create_string_buffer(8), size(8)
    libc.getsockopt(fd, TCP, 11, place, ctypes.byref(length))
    return place.raw[0]

# shutdown: each way, ways that there are not, and again.
for way in (-1, 0, 1, 2, 3):
    def shuts(fd):
        yield (str(way), called('shutdown', fd, way))
        # The peer has acknowledged it by then: not FIN-WAIT-1, LAST-ACK or CLOSING.
        until(lambda: info(fd) not in (4, 9, 11))
        yield ('again', called('shutdown', fd, way))
        yield ('then recv', called('recv', fd, buffer, 9, 0x40))
        yield ('then send', called('send', fd, b'x', 1, 0x4040))
    each('shutdown', shuts)

# getsockopt: lengths of all kinds, and no places for what it tells.
TELLS = {(SOL, 2): 'SO_REUSEADDR', (SOL, 3): 'SO_TYPE', (SOL, 4): 'SO_ERROR', (SOL, 5): 'SO_DONTROUTE', (SOL, 6): 'SO_BROADCAST',
         (SOL, 9): 'SO_KEEPALIVE', (SOL, 10): 'SO_OOBINLINE', (SOL, 12): 'SO_PRIORITY', (SOL, 13): 'SO_LINGER',
         (SOL, 15): 'SO_REUSEPORT', (SOL, 18): 'SO_RCVLOWAT', (SOL, 19): 'SO_SNDLOWAT', (SOL, 20): 'SO_RCVTIMEO',
         (SOL, 21): 'SO_SNDTIMEO', (SOL, 29): 'SO_TIMESTAMP', (SOL, 30): 'SO_ACCEPTCONN', (SOL, 36): 'SO_MARK',
         (SOL, 38): 'SO_PROTOCOL', (SOL, 39): 'SO_DOMAIN', (SOL, 60): 'SO_ZEROCOPY', (SOL, 16): 'SO_PASSCRED',
         (SOL, 25): 'SO_BINDTODEVICE', (SOL, 40): 'SO_RXQ_OVFL', (SOL, 41): 'SO_WIFI_STATUS', (SOL, 42): 'SO_PEEK_OFF',
         (SOL, 43): 'SO_NOFCS', (SOL, 44): 'SO_LOCK_FILTER', (SOL, 45): 'SO_SELECT_ERR_QUEUE', (SOL, 999): 'none',
         (TCP, 1): 'TCP_NODELAY', (TCP, 3): 'TCP_CORK', (TCP, 4): 'TCP_KEEPIDLE', (TCP, 5): 'TCP_KEEPINTVL',
         (TCP, 6): 'TCP_KEEPCNT', (TCP, 7): 'TCP_SYNCNT', (TCP, 8): 'TCP_LINGER2', (TCP, 9): 'TCP_DEFER_ACCEPT',
         (TCP, 12): 'TCP_QUICKACK', (TCP, 16): 'TCP_THIN_LINEAR_TIMEOUTS', (TCP, 17): 'TCP_THIN_DUPACK',
         (TCP, 18): 'TCP_USER_TIMEOUT', (TCP, 19): 'TCP_REPAIR', (TCP, 23): 'TCP_FASTOPEN', (TCP, 24): 'TCP_TIMESTAMP',
         (TCP, 25): 'TCP_NOTSENT_LOWAT', (TCP, 27): 'TCP_SAVE_SYN', (TCP, 30): 'TCP_FASTOPEN_CONNECT', (TCP, 36): 'TCP_INQ',
         (TCP, 999): 'none of TCP', (IP, 1): 'IP_TOS', (IP, 2): 'IP_TTL', (IP, 8): 'IP_PKTINFO', (IP, 10): 'IP_MTU_DISCOVER',
         (IP, 11): 'IP_RECVERR', (IP, 14): 'IP_MTU', (IP, 15): 'IP_FREEBIND', (IP, 19): 'IP_TRANSPARENT', (IP, 999): 'none of IP',
         (IPV6, 26): 'IPV6_V6ONLY', (17, 1): 'UDP', (-1, 1): 'level -1', (0x7777, 1): 'level 0x7777', (255, 1): 'SOL_RAW',
         (263, 1): 'SOL_PACKET', (282, 1): 'SOL_TLS'}
# What it tells differs by nature: only whether it does, and how long it is, is told.
VAGUE = {'TCP_QUICKACK', 'TCP_TIMESTAMP', 'IP_MTU'}
def told(fd, option, length, place=True, room=True):
    level, name = option
    value, size = ctypes.create_string_buffer(b'\xee' * 64, 64), ctypes.c_int(length)
    came = called('getsockopt', fd, level, name, value if place else NULL, ctypes.byref(size) if room else NULL)
    if came != 0 or TELLS[option] in VAGUE or not place:
        return came, size.value
    return came, size.value, value.raw[:8].hex()
def asked(fd):
    for option, name in TELLS.items():
        for length in (4, 0, 1, 3, 8, 16, 1 << 20, -1):
            yield (f'{name} {length}', *told(fd, option, length))
        yield (f'{name} without a value', *told(fd, option, 4, place=False))
        yield (f'{name} without a length', *told(fd, option, 4, room=False))
each('getsockopt', asked, ['quiet', 'listening', 'reset'])

# setsockopt: values and lengths of all kinds.
for option, name in TELLS.items():
    def given(fd):
        level, number = option
        for value in (0, 1, 2, -1, 1 << 30, -1 << 31):
            yield (f'{name} {value}', called('setsockopt', fd, level, number, struct.pack('i', value), 4), *told(fd, option, 4))
        for length in (0, 1, 3, 8, 16, -1):
            yield (f'{name} of {length} bytes', called('setsockopt', fd, level, number, struct.pack('iiii', 1, 0, 0, 0), length))
        yield (f'{name} from nowhere', called('setsockopt', fd, level, number, NULL, 4))
    each('setsockopt', given, ['quiet', 'listening'])
def ctypes_value(fd, name, length):
    value, length = ctypes.create_string_buffer(length), size(length)
    libc.getsockopt(fd, SOL, name, value, ctypes.byref(length))
    return value.raw
TIMES = ((1, 0), (0, 999999), (0, 1000000), (0, -1), (-1, 0), (1 << 40, 0), (0, 0))
each('setsockopt', lambda fd: [(f'SO_RCVTIMEO {time}', called('setsockopt', fd, SOL, 20, struct.pack('qq', *time), 16),
                                struct.unpack('qq', ctypes_value(fd, 20, 16))) for time in TIMES], ['quiet'])

# accept: flags that there are not, on what is no listener, and places that are none.
def accepts(fd):
    for flags in (0, 0o4000, 0o2000000, 1, 0x1000, -1):
        yield (f'4 with {flags:#x}', called('accept4', fd, NULL, NULL, flags))
    yield ('without a length', called('accept', fd, buffer, NULL))
    yield ('to nowhere', called('accept', fd, WILD, ctypes.byref(ctypes.c_int(16))))
each('accept', accepts)
# And with somebody there.
def accepts_one(label, *arguments):
    listener = listening()
    name, size = ctypes.create_string_buffer(16), ctypes.c_int(16)
    libc.getsockname(listener, name, ctypes.byref(size))
    port = struct.unpack('>H', name.raw[2:4])[0]
    # The peer connects to the port that it is told.
    caller = connected(CALLS)
    called('send', caller, b'%d\n' % port, 6 if port > 9999 else 5, 0)
    until(lambda: events(listener))
    came = called('accept', listener, *arguments)
    if isinstance(came, int):
        called('close', came)
        came = 'accepted'
    say('listening', 'accept of one ' + label, came, called('accept', listener, NULL, NULL))
    called('close', listener)
    called('close', caller)
accepts_one('without a place', NULL, NULL)
accepts_one('without a length', buffer, NULL)
accepts_one('to nowhere', WILD, ctypes.byref(size(16)))
accepts_one('of length 0', buffer, ctypes.byref(size(0)))
accepts_one('of length -1', buffer, ctypes.byref(size(-1)))

# listen, bind and connect once more.
def begins(fd):
    for backlog in (0, -1, 1 << 30, 5):
        yield (f'listen {backlog}', called('listen', fd, backlog))
each('again', begins)
def binds(fd):
    name = address(OWN, 0)
    for length in (16, 0, 1, 2, 15, 17, 128, 129, -1):
        yield (f'bind of {length} bytes', called('bind', fd, name + bytes(128), length))
    yield ('bind from nowhere', called('bind', fd, WILD, 16))
    for family in (0, 1, 10, 99):
        yield (f'bind of family {family}', called('bind', fd, address(OWN, 0, family), 16))
each('again', binds)
def connects(fd):
    name = address(PEER, HOLD)
    for length in (16, 0, 1, 2, 15, 17, 128, 129, -1):
        yield (f'connect of {length} bytes', called('connect', fd, name + bytes(128), length))
    yield ('connect from nowhere', called('connect', fd, WILD, 16))
    for family in (1, 10, 99):
        yield (f'connect of family {family}', called('connect', fd, address(PEER, HOLD, family), 16))
each('again', connects, ['quiet', 'listening', 'ended', 'shut', 'half_shut', 'with_data'])
each('again', lambda fd: [('connect', called('connect', fd, address(PEER, HOLD), 16))], ['reset_and_read', 'refused'])
each('no more', lambda fd: [('connect', called('connect', fd, address(PEER, 0, 0), 16)),
                            ('connect again', called('connect', fd, address(PEER, 0, 0), 16)),
                            ('then recv', called('recv', fd, buffer, 1, 0x40)),
                            ('then send', called('send', fd, b'x', 1, 0x4040)),
                            ('then getpeername', called('getpeername', fd, buffer, ctypes.byref(size(16)))),
                            ('then events', events(fd, 0x201f))])

# recv and send: each flag, lengths and places of all kinds.
def with_bits(fd):
    for bit in range(32):
        yield (f'with bit {bit}', called('recv', fd, buffer, 2, ctypes.c_int(1 << bit | 0x40)))
each('recv', with_bits, ['quiet', 'ended', 'reset', 'shut', 'listening'])
for bit in range(32):
    flag = ctypes.c_int(1 << bit | 0x40)
    each('recv', lambda fd: [(f'with bit {bit}', called('recv', fd, buffer, 2, flag))], ['with_data'])
each('recv', lambda fd: [('with all bits', called('recv', fd, buffer, 2, -1))])
def sent_with_bits(fd):
    # MSG_OOB is urgent data, which changes the connection, and MSG_ZEROCOPY tells of itself later.
    for bit in range(32):
        if bit not in (0, 26):
            yield (f'with bit {bit}', called('send', fd, b'ab', 2, ctypes.c_int(1 << bit | 0x4040)))
each('send', sent_with_bits, ['quiet', 'half_shut', 'listening'])
def receives(fd):
    yield ('of 0 bytes', called('recv', fd, buffer, SIZE(0), 0x40))
    yield ('of 0 bytes to nowhere', called('recv', fd, NULL, SIZE(0), 0x40))
    yield ('to nowhere', called('recv', fd, WILD, SIZE(9), 0x42))
    yield ('to a wild place', called('recv', fd, ctypes.c_void_p(0xffff_0000_0000_0000), SIZE(9), 0x42))
    yield ('of all at a peek', called('recv', fd, buffer, SIZE(9), 0x142))
    yield ('of more than there is', called('recv', fd, buffer, SIZE(1 << 16), 0x42))
    yield ('from somebody', called('recvfrom', fd, buffer, SIZE(1), 0x42, buffer, ctypes.byref(size(-1))))
    yield ('read of 0', called('read', fd, buffer, SIZE(0)))
    yield ('read to nowhere', called('read', fd, WILD, SIZE(9)))
each('recv', receives)
def sends(fd):
    yield ('of 0 bytes', called('send', fd, buffer, SIZE(0), 0x4040))
    yield ('of 0 bytes from nowhere', called('send', fd, NULL, SIZE(0), 0x4040))
    yield ('from nowhere', called('send', fd, WILD, SIZE(9), 0x4040))
    yield ('write of 0', called('write', fd, buffer, SIZE(0)))
    yield ('write from nowhere', called('write', fd, WILD, SIZE(9)))
    for length in (16, 0, 1, 128, 129, -1):
        name = address(PEER, HOLD) + bytes(128)
        yield (f'to a name of {length} bytes', called('sendto', fd, b'x', SIZE(1), 0x4040, name, length))
    yield ('to a name that is nowhere', called('sendto', fd, b'x', SIZE(1), 0x4040, WILD, 16))
each('send', sends)
vector = ctypes.create_string_buffer(16 * 2048)
def vectors(count, length=1, base=None):
    base = ctypes.addressof(buffer) if base is None else base
    for at in range(min(count, 2048)):
        struct.pack_into('QQ', vector, 16 * at, base, length & (1 << 64) - 1)
    return vector
def header(iov, count, name=0, name_len=0, control=0, control_len=0):
    return struct.pack('QIxxxxQQQQixxxx', name, name_len, iov, count, control, control_len, 0)
def scattered(fd):
    for call in ('readv', 'writev'):
        for count in (0, -1, 1, 1024, 1025, 1 << 30):
            yield (f'{call} of {count}', called(call, fd, vectors(max(count, 1)), count))
        yield (f'{call} of a length below 0', called(call, fd, vectors(2, -1), 2))
        yield (f'{call} at nowhere', called(call, fd, WILD, 1))
        yield (f'{call} of no bytes', called(call, fd, vectors(2, 0), 2))
    for call, flags in (('recvmsg', 0x40), ('sendmsg', 0x4040)):
        place = ctypes.addressof(vector)
        for count in (0, 1, 1024, 1025, 1 << 40, (1 << 64) - 1):
            vectors(min(count, 1025))
            yield (f'{call} of {count}', called(call, fd, header(place, count), flags))
        yield (f'{call} at nowhere', called(call, fd, WILD, flags))
        yield (f'{call} of vectors at nowhere', called(call, fd, header(0x10, 1), flags))
        vectors(1)
        yield (f'{call} with a name below 0', called(call, fd, header(place, 1, ctypes.addressof(buffer), 0xffffffff), flags))
        yield (f'{call} with a long name', called(call, fd, header(place, 1, ctypes.addressof(buffer), 500), flags))
        yield (f'{call} with control at nowhere', called(call, fd, header(place, 1, control=0x10, control_len=64), flags))
        yield (f'{call} with much control', called(call, fd, header(place, 1, control=ctypes.addressof(buffer), control_len=1 << 40), flags))
        yield (f'{call} with all flags', called(call, fd, header(place, 1), -1)) if call == 'recvmsg' else ('', '')
    for count in (0, 1, 2000):
        yield (f'recvmmsg of {count}', called('recvmmsg', fd, header(ctypes.addressof(vectors(1)), 1) + bytes(8), min(count, 1), 0x40, NULL))
    yield ('recvmmsg with a bad time', called('recvmmsg', fd, header(ctypes.addressof(vectors(1)), 1) + bytes(8), 1, 0x40, struct.pack('qq', -1, 0)))
    yield ('sendmmsg of 0', called('sendmmsg', fd, NULL, 0, 0x4040))
    yield ('sendmmsg at nowhere', called('sendmmsg', fd, WILD, 1, 0x4040))
each('vectors', scattered, ['quiet', 'with_data', 'listening', 'shut', 'reset_and_read'])

# What is of files.
pipe = (ctypes.c_int * 2)()
libc.pipe(pipe)
file = os.open('/proc/self/exe', os.O_RDONLY)
def of_files(fd):
    for call, *arguments in (('lseek', ctypes.c_long(0), 0), ('lseek', ctypes.c_long(0), 1), ('lseek', ctypes.c_long(0), 99),
                             ('pread', buffer, SIZE(1), ctypes.c_long(0)), ('pwrite', buffer, SIZE(1), ctypes.c_long(0)),
                             ('pread', buffer, SIZE(1), ctypes.c_long(-1)), ('preadv', vectors(1), 1, ctypes.c_long(0)),
                             ('pwritev', vectors(1), 1, ctypes.c_long(0)), ('ftruncate', ctypes.c_long(0)), ('fsync',), ('fdatasync',),
                             ('fchdir',), ('isatty',), ('flock', 4), ('posix_fadvise', ctypes.c_long(0), ctypes.c_long(0), 0),
                             ('syncfs',) if False else ('fallocate', 0, ctypes.c_long(0), ctypes.c_long(1))):
        yield (f'{call} {[a.value if hasattr(a, "value") and isinstance(a, (ctypes.c_long, SIZE)) else "" for a in arguments]}',
               called(call, fd, *arguments))
    for count in (0, 1, -1):
        yield (f'sendfile of {count}', called('sendfile', fd, file, NULL, SIZE(count if count >= 0 else (1 << 64) - 1)) if count >= 0 else '')
    yield ('sendfile from below 0', called('sendfile', fd, file, ctypes.byref(ctypes.c_long(-1)), SIZE(1)))
    yield ('sendfile from a place that is none', called('sendfile', fd, file, WILD, SIZE(1)))
    yield ('sendfile from itself', called('sendfile', fd, fd, NULL, SIZE(1)))
    yield ('sendfile from nobody', called('sendfile', fd, 999, NULL, SIZE(1)))
    yield ('sendfile out of it', called('sendfile', pipe[1], fd, NULL, SIZE(1)))
    yield ('splice of nothing', called('splice', fd, NULL, pipe[1], NULL, SIZE(0), 0))
    yield ('splice with an offset', called('splice', fd, ctypes.byref(ctypes.c_long(0)), pipe[1], NULL, SIZE(1), 2))
    yield ('splice of two', called('splice', fd, NULL, fd, NULL, SIZE(1), 2))
    yield ('splice with all flags', called('splice', fd, NULL, pipe[1], NULL, SIZE(1), 0x7fffffff))
    yield ('tee', called('tee', fd, pipe[1], SIZE(1), 2))
    yield ('vmsplice', called('vmsplice', fd, vectors(1), 1, 2))
    mode = os.fstat(fd).st_mode
    yield ('fstat', oct(mode & 0o170000))
each('file', of_files, ['quiet', 'listening', 'with_data', 'shut'])

# Names.
def names(fd):
    for call in ('getsockname', 'getpeername'):
        for length in (16, 0, 1, 28, 1 << 20, -1):
            room = size(length)
            yield (f'{call} of {length}', called(call, fd, buffer, ctypes.byref(room)), room.value)
        yield (f'{call} to nowhere', called(call, fd, WILD, ctypes.byref(size(16))))
        yield (f'{call} without a length', called(call, fd, buffer, NULL))
    yield ('sockatmark', called('sockatmark', fd))
each('name', names)

# ioctl and fcntl.
def controls(fd):
    for request in (0x1234, 0x5413, 0x5401, 0x5421, 0x5452, 0x5450, 0x5451, 0x541b, 0x5411, 0x8905, 0x894b, 0x8901, 0x8902, 0x8903,
                    0x8904, 0x8906, 0x8907, 0x2, 0x5460, 0x1, 0x80047210, 0xffffffff):
        value = size(0)
        # How much of what was sent is under way is the moment's.
        yield (f'ioctl {request:#x}', called('ioctl', fd, ctypes.c_ulong(request), ctypes.byref(value)),
               value.value if request not in (0x5411, 0x894b) else '')
        yield (f'ioctl {request:#x} to nowhere', called('ioctl', fd, ctypes.c_ulong(request), WILD))
    nonblocking(fd)
    for command in (1, 3, 9, 11, 16, 1024 + 2, 1025, 1026, 1032, 1034, 7777, -1):
        yield (f'fcntl {command}', called('fcntl', fd, command, ctypes.c_long(0)))
    for flags in (0, os.O_APPEND, os.O_DIRECT, os.O_NOATIME, os.O_SYNC, os.O_NONBLOCK, os.O_ASYNC, os.O_RDWR, os.O_CREAT, 0x7fffffff):
        yield (f'F_SETFL {flags:#x}', called('fcntl', fd, 4, ctypes.c_long(flags)), called('fcntl', fd, 3, ctypes.c_long(0)))
    called('fcntl', fd, 4, ctypes.c_long(os.O_NONBLOCK))
    for flags in (0, 1, 2, -1):
        yield (f'F_SETFD {flags}', called('fcntl', fd, 2, ctypes.c_long(flags)), called('fcntl', fd, 1, ctypes.c_long(0)))
    for command in (0, 1030):
        for least in (-1, 1 << 20, 1024):
            yield (f'fcntl {command} from {least}', called('fcntl', fd, command, ctypes.c_long(least)))
    for command in (5, 6, 8, 10, 15):
        yield (f'fcntl {command} at nowhere', called('fcntl', fd, command, WILD if command not in (8, 10) else ctypes.c_long(0)))
each('control', controls, ['quiet', 'listening', 'with_data', 'shut', 'reset_and_read'])

# Doubles.
def doubles(fd):
    yield ('dup3 of itself', called('dup3', fd, fd, 0))
    yield ('dup3 with flags that there are not', called('dup3', fd, 900, 1))
    for new in (-1, 1024, 1 << 30):
        yield (f'dup2 to {new}', called('dup2', fd, new))
        yield (f'dup3 to {new}', called('dup3', fd, new, 0))
    yield ('dup2 of itself', called('dup2', fd, fd) == fd)
    yield ('dup2', called('dup2', fd, 901), called('fcntl', 901, 1, 0), events(901) == events(fd))
    yield ('dup3', called('dup3', 901, 902, os.O_CLOEXEC), called('fcntl', 902, 1, 0))
    yield ('close', called('close', 901), called('close', 901), called('recv', 901, buffer, 1, 0x40), called('dup', 901))
    yield ('its double', events(902) == events(fd), called('close', 902))
each('double', doubles)

# Sets.
def sets(fd):
    made = libc.epoll_create1(0)
    event = struct.pack('=IQ', 1, 7)
    for label, *arguments in (('of itself', made, 1, made, event), ('of op 0', made, 0, fd, event), ('of op 9', made, 9, fd, event),
                              ('MOD before', made, 3, fd, event), ('DEL before', made, 2, fd, NULL), ('ADD from nowhere', made, 1, fd, WILD),
                              ('in no set', fd, 1, fd, event), ('in nothing', 999, 1, fd, event), ('of nothing', made, 1, 999, event),
                              ('EXCLUSIVE and ONESHOT', made, 1, fd, struct.pack('=IQ', 1 << 28 | 1 << 30 | 1, 7)),
                              ('EXCLUSIVE and RDHUP', made, 1, fd, struct.pack('=IQ', 1 << 28 | 0x2001, 7)),
                              ('ADD', made, 1, fd, struct.pack('=IQ', 1 << 28 | 1, 7)), ('ADD again', made, 1, fd, event),
                              ('MOD of EXCLUSIVE', made, 3, fd, event), ('DEL', made, 2, fd, WILD), ('DEL again', made, 2, fd, NULL),
                              ('ADD of nothing at all', made, 1, fd, struct.pack('=IQ', 0, 7)), ('MOD to EXCLUSIVE', made, 3, fd, struct.pack('=IQ', 1 << 28 | 1, 7)),
                              ('MOD', made, 3, fd, event), ('MOD from nowhere', made, 3, fd, NULL)):
        yield ('epoll_ctl ' + label, called('epoll_ctl', *arguments))
    for most in (0, -1, 1, 1 << 20, 1 << 30):
        yield (f'epoll_wait for {most}', called('epoll_wait', made, buffer if most < 1 << 20 else buffer, most, 0))
    yield ('epoll_wait to nowhere', called('epoll_wait', made, WILD, 1, 0))
    yield ('epoll_wait on no set', called('epoll_wait', fd, buffer, 1, 0))
    yield ('epoll_wait on nothing', called('epoll_wait', 999, buffer, 1, 0))
    for time in ((0, -1), (0, 1000000000), (-1, 0), (0, 0)):
        yield (f'epoll_pwait2 {time}', called('epoll_pwait2', made, buffer, 1, struct.pack('qq', *time), NULL))
    called('close', made)
    for count in (1, 1024, 1025, 1 << 30):
        entries = ctypes.create_string_buffer(struct.pack('ihh', fd, 0, 0) * min(count, 2048))
        yield (f'poll of {count}', called('poll', entries, ctypes.c_ulong(count), 0))
    yield ('poll at nowhere', called('poll', WILD, ctypes.c_ulong(1), 0))
    for asked in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 0x2000, 0x4000, 0x7fff):
        yield (f'poll for {asked:#x}', events(fd, asked))
    for time in ((0, -1), (0, 1000000000), (-1, 0), (0, 0)):
        entries = ctypes.create_string_buffer(struct.pack('ihh', fd, 1, 0))
        yield (f'ppoll {time}', called('ppoll', entries, ctypes.c_ulong(1), struct.pack('qq', *time), NULL))
    bits = lambda: ctypes.create_string_buffer(struct.pack('Q' * 16, *(1 << fd % 64 if at == fd // 64 else 0 for at in range(16))))
    for most in (fd + 1, 0, -1, 1024):
        for which in range(3):
            places = [NULL, NULL, NULL]
            places[which] = bits()
            yield (f'select {which} below {most if most != fd + 1 else "it"}', called('select', most, *places, struct.pack('qq', 0, 0)))
    for time in ((0, -1), (-1, 0), (0, 1000000)):
        yield (f'select {time}', called('select', fd + 1, bits(), NULL, NULL, struct.pack('qq', *time)))
    yield ('select at nowhere', called('select', fd + 1, WILD, NULL, NULL, struct.pack('qq', 0, 0)))
each('set', sets)
print('END', flush=True)
