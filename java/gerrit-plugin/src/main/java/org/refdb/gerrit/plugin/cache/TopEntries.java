package org.refdb.gerrit.plugin.cache;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.BadRequestException;
import com.google.gerrit.extensions.restapi.ResourceNotFoundException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestReadView;
import com.google.gerrit.server.config.CacheResource;
import com.google.gerrit.sshd.CommandMetaData;
import java.time.Instant;
import java.util.List;
import org.kohsuke.args4j.Option;
import org.refdb.gerrit.cache.CacheTools;

/** Lists the largest or most used entries of a persistent cache; keys that are secret are not shown. */
final class TopEntries {
  private static final int COUNT_DEFAULT = 20;

  private TopEntries() {}

  private static List<CacheTools.TopEntry> run(CacheTools cache, int count, CacheTools.Order order)
      throws BadRequestException {
    try {
      return cache.top(count, order);
    } catch (IllegalArgumentException e) {
      throw new BadRequestException(e.getMessage(), e);
    }
  }

  /** {@code refdb cache top CACHE [--by SIZE|USES] [-n COUNT]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "top", description = "The largest or most used entries of a persistent cache")
  static final class Command extends CacheCommand.One {
    @Option(name = "--by", usage = "SIZE or USES")
    private CacheTools.Order order = CacheTools.Order.SIZE;

    @Option(name = "-n", metaVar = "COUNT", usage = "how many")
    private int count = COUNT_DEFAULT;

    @Override
    void execute() throws UnloggedFailure, BadRequestException {
      for (CacheTools.TopEntry entry : TopEntries.run(cache(), count, order)) {
        stdout.println(
            "%10d bytes, used %d, made %s: %s"
                .formatted(entry.diskBytes(), entry.uses(), Instant.ofEpochMilli(entry.createdMillis()), entry.key()));
      }
    }
  }

  /** {@code GET /config/server/caches/NAME/refdb~top?n=COUNT&by=SIZE|USES}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint implements RestReadView<CacheResource> {
    @Option(name = "-n", metaVar = "COUNT", usage = "how many")
    private int count = COUNT_DEFAULT;

    @Option(name = "--by", usage = "SIZE or USES")
    private CacheTools.Order order = CacheTools.Order.SIZE;

    @Override
    public Response<List<CacheTools.TopEntry>> apply(CacheResource cache)
        throws ResourceNotFoundException, BadRequestException {
      return Response.ok(run(CacheResources.tools(cache), count, order));
    }
  }
}
