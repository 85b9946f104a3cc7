package org.refdb.gerrit.cache.shared;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.server.cache.PersistentCacheDef;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.eclipse.jgit.lib.Config;
import redis.clients.jedis.exceptions.JedisRedirectionException;

/** What all shared caches of this Gerrit have in common: the connections, and when they may be used. */
public final class SharedCaches implements AutoCloseable {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final long POLL_MILLIS = 1_000;
  private static final long PROBE_MILLIS = 100;
  private static final long FLUSH_SECONDS_MAX = 5;
  private static final long CLOSE_SECONDS_MAX = 2;

  private final SharedSettings settings;
  private final Sharing sharing;
  private final ValueContext context;
  private final Client client;
  private final Breaker breaker = new Breaker();
  private final Budget budget;
  private final Patience patience;
  private final Generations generations;
  private final EntryFormat format;
  private final Offers offers;
  private final Peers peers;
  private final Map<String, SharedTier> tiers = new ConcurrentHashMap<>();
  private volatile Servant servant;
  private final Thread keeper = new Thread(this::keep, "refdb-shared-keeper");
  private boolean isClosed;

  /** Does what another node asks. */
  public interface Servant {
    /**
     * Hears what another node asks, or null for nothing, at least about each second while the server answers. This
     * must not wait.
     */
    void asked(Peers.Request request);
  }

  private SharedCaches(SharedSettings settings, Sharing sharing, ValueContext context, String instanceId)
      throws IOException {
    this.settings = settings;
    this.sharing = sharing;
    this.context = context;
    this.client = new Client(settings.address(), new Connector(settings), breaker);
    this.budget = new Budget(settings.budget().toNanos(), System::nanoTime);
    this.patience = new Patience(settings.deadline().toNanos());
    this.generations = new Generations(settings.namespace());
    this.format = new EntryFormat(settings.keys());
    this.offers = new Offers(client, breaker, format, settings);
    this.peers = new Peers(client, format, settings.namespace(), instanceId);
    keeper.setDaemon(true);
    keeper.start();
    offers.start();
  }

  /** Returns the shared caches of a site; null if it has none, or their settings are wrong, which is logged. */
  public static SharedCaches of(Config config, Path site) {
    try {
      SharedSettings settings = SharedSettings.of(config, site);
      if (settings == null) {
        return null;
      }
      if (!settings.isEncrypted()) {
        logger.atWarning().log("Whoever reaches the shared cache can forge its values: set cache.refdbSharedKey");
      }
      String instanceId = config.getString("gerrit", null, "instanceId");
      return new SharedCaches(settings, new Sharing(config, settings), new ValueContext(config, site), instanceId);
    } catch (IllegalArgumentException | IOException e) {
      logger.atSevere().log("There is no shared cache: %s", e.getMessage());
      return null;
    }
  }

  /** Returns whether a cache is shared. */
  public boolean allows(PersistentCacheDef<?, ?> def) {
    return sharing.allows(def);
  }

  /**
   * Returns the shared tier of a cache; null if the cache is not shared.
   *
   * @param offerTime from when on values that this node has may be offered
   */
  public SharedTier tier(PersistentCacheDef<?, ?> def, OfferTime offerTime) {
    if (!sharing.allows(def)) {
      return null;
    }
    generations.add(def.name());
    wake();
    EntryKeys names = new EntryKeys(settings.namespace(), def.name(), context.of(def));
    Class<?> javaType = Sharing.isJava(def.valueSerializer()) ? def.valueType().getRawType() : null;
    boolean hasJavaKeys = Sharing.isJava(def.keySerializer());
    boolean isDetermined = Verdicts.of(def) == Verdict.SHARE;
    SharedTier tier = new SharedTier(this, def.name(), names, offerTime, isDetermined, javaType, hasJavaKeys);
    tiers.put(def.name(), tier);
    return tier;
  }

  /** Reads the generations at intervals, which also tells whether the server is well. */
  private void keep() {
    while (pause(breaker.isOpen() ? PROBE_MILLIS : POLL_MILLIS)) {
      try {
        client.refresh();
        breaker.probed(generations.poll(client) <= settings.deadline().toNanos());
        tiers.values().forEach(SharedTier::noteGeneration);
        serve();
      } catch (TimeoutException | JedisRedirectionException | ConnectingException e) {
        breaker.probed(false);
      } catch (RuntimeException | Error e) { // also an OutOfMemoryError: without this thread, no flush is heard of
        breaker.failed(e);
      }
    }
  }

  private void serve() {
    Servant present = servant;
    if (present != null) {
      try {
        present.asked(peers.request());
      } catch (IOException e) {
        logger.atFine().withCause(e).log("Not known what other nodes ask");
      }
    }
  }

  /** Sets who does what other nodes ask. */
  public void serveWith(Servant does) {
    servant = does;
  }

  /** Returns the contact with other nodes. */
  public Peers peers() {
    return peers;
  }

  private synchronized boolean pause(long millis) {
    try {
      if (!isClosed) {
        wait(millis);
      }
    } catch (InterruptedException e) {
      return false;
    }
    return !isClosed;
  }

  private synchronized void wake() {
    notifyAll();
  }

  void raise(String cache) {
    generations.raise(cache);
    wake();
  }

  /**
   * Voids the shared values of a cache, or of all, and waits until the server knows.
   *
   * @param cache the name of a cache; null for all
   * @throws IOException if the server of the shared cache does not know within five seconds; this Gerrit uses no older
   *     value all the same, and tells that server later
   */
  public void flush(String cache) throws IOException, InterruptedException {
    raise(cache == null ? Generations.ALL : cache);
    if (!awaitTold(FLUSH_SECONDS_MAX)) {
      throw new IOException("the shared cache does not answer; other nodes may not know of the flush yet");
    }
  }

  /** Waits until the server knows what was raised here. Returns whether it does after so many seconds at most. */
  private boolean awaitTold(long seconds) throws InterruptedException {
    long start = System.nanoTime();
    while (!generations.isTold()) {
      if (System.nanoTime() - start > TimeUnit.SECONDS.toNanos(seconds)) {
        return false;
      }
      Thread.sleep(20);
      wake();
    }
    return true;
  }

  /** Returns whether {@link #close} was called. */
  public synchronized boolean isClosed() {
    return isClosed;
  }

  /** Returns whether requests ask the server now: it answers in time, and has told the generations. */
  public boolean isInUse() {
    return !breaker.isOpen() && generations.of(Generations.ALL) != null;
  }

  /**
   * What waits in memory at the moment.
   *
   * @param entries values and deletions that are to be sent to the server
   * @param bytes the bytes of these
   * @param answerBytes bytes of answers that nobody has taken yet
   */
  public record Waiting(int entries, long bytes, long answerBytes) {}

  /** Returns the state for an administrator. This asks the server, for at most two seconds. */
  public SharedStatus status() {
    return SharedStatus.of(this);
  }

  /** Returns a walk over the names of the entries of a cache, or with null of all. */
  public EntryScan scan(String cache) {
    return new EntryScan(client, settings.namespace(), cache);
  }

  /** Returns the most bytes that an entry may have: a key, its value, and 45 bytes beside them. */
  public int valueBytesMax() {
    return settings.valueBytesMax();
  }

  /** Returns what waits in memory. */
  public Waiting waiting() {
    return offers.waiting(client.answerBytes());
  }

  SharedSettings settings() {
    return settings;
  }

  Client client() {
    return client;
  }

  Breaker breaker() {
    return breaker;
  }

  Budget budget() {
    return budget;
  }

  Patience patience() {
    return patience;
  }

  Generations generations() {
    return generations;
  }

  EntryFormat format() {
    return format;
  }

  Offers offers() {
    return offers;
  }

  /**
   * Closes the connections once the server knows which values were voided here. If it does not answer, this waits for
   * some seconds and then logs what an administrator has to do.
   */
  @Override
  public void close() {
    offers.close();
    tellVoided();
    synchronized (this) {
      isClosed = true;
      notifyAll();
    }
    keeper.interrupt();
    client.close();
  }

  private void tellVoided() {
    try {
      if (!awaitTold(CLOSE_SECONDS_MAX)) {
        logger.atWarning().log(
            "The shared cache does not answer, and still has values that were voided here: flush the shared caches");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
