package org.refdb.bench.caches;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Keys, values and their popularity, as bench/kv-workload.md defines them. */
final class Workload {
  private static final long GOLDEN = 0x9e3779b97f4a7c15L;
  private static final int POOL_BYTES = 256 << 10;
  private static final int POOL_STARTS = 128 << 10;
  private static final double THETA = 0.99;
  private static final byte[] POOL = pool();

  private Workload() {}

  static long mix(long seed) {
    long x = seed + GOLDEN;
    x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
    x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
    return x ^ (x >>> 31);
  }

  /** A seeded generator. */
  static final class Draws {
    private long state;

    Draws(long seed) {
      state = seed;
    }

    long draw() {
      long draw = mix(state);
      state += GOLDEN;
      return draw;
    }

    double uniform() {
      return (draw() >>> 11) / (double) (1L << 53);
    }
  }

  private static byte[] pool() {
    ByteBuffer pool = ByteBuffer.allocate(POOL_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    Draws draws = new Draws(42);
    while (pool.hasRemaining()) {
      pool.putLong(draws.draw());
    }
    return pool.array();
  }

  static byte[] key(long i) {
    long h = mix(i);
    return fill(i, h, 40 + (int) Long.remainderUnsigned(h, 81));
  }

  static byte[] value(long i) {
    return fill(i, mix(~i), valueLength(i));
  }

  static int valueLength(long i) {
    long h = mix(~i);
    if (Long.remainderUnsigned(h, 100) < 2) {
      return 5000 + (int) ((h >>> 8) % 45_001);
    }
    Draws draws = new Draws(h);
    double u = draws.uniform();
    double v = draws.uniform();
    double normal = Math.sqrt(-2 * Math.log(1 - u)) * Math.cos(2 * Math.PI * v);
    return (int) Math.clamp((long) (400 * Math.exp(normal)), 8, 100_000);
  }

  private static byte[] fill(long i, long h, int length) {
    byte[] bytes = new byte[length];
    ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).putLong(i);
    System.arraycopy(POOL, (int) ((h >>> 16) % POOL_STARTS), bytes, 8, length - 8);
    return bytes;
  }

  /** Whether these are the bytes of value {@code i}, by length and first bytes. */
  static boolean isValue(long i, byte[] bytes) {
    return bytes.length == valueLength(i) && ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getLong() == i;
  }

  /** Ranks with a zipfian popularity. */
  static final class Zipf {
    private final long n;
    private final double zetaN;
    private final double alpha = 1 / (1 - THETA);
    private final double eta;

    Zipf(long n) {
      this.n = n;
      zetaN = zeta(n);
      eta = (1 - Math.pow(2.0 / n, 1 - THETA)) / (1 - zeta(2) / zetaN);
    }

    private static double zeta(long n) {
      double sum = 0;
      for (long rank = 1; rank <= n; rank++) {
        sum += Math.pow(rank, -THETA);
      }
      return sum;
    }

    long key(Draws draws) {
      double u = draws.uniform();
      double uz = u * zetaN;
      long rank = uz < 1 ? 0 : uz < 1 + Math.pow(0.5, THETA) ? 1 : (long) (n * Math.pow(eta * u - eta + 1, alpha));
      return Long.remainderUnsigned(mix(Math.min(rank, n - 1)), n);
    }
  }
}
