package org.refdb.gerrit.plugin.cache;

import com.google.gerrit.sshd.BaseCommand;
import java.util.List;

/** Lists the SSH commands for the persistent caches: {@code refdb cache COMMAND}. */
public final class CacheCommands {
  public static final List<Class<? extends BaseCommand>> ALL =
      List.of(
          ShowCacheStat.Command.class,
          VerifyCache.Command.class,
          CompactCache.Command.class,
          FlushShared.Command.class,
          WarmCaches.Command.class,
          TopEntries.Command.class,
          ExportCache.Command.class,
          ImportCache.Command.class);

  private CacheCommands() {}
}
