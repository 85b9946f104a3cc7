package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.BadRequestException;
import com.google.gerrit.extensions.restapi.BinaryResult;
import com.google.gerrit.extensions.restapi.RawInput;
import com.google.gerrit.extensions.restapi.ResourceConflictException;
import com.google.gerrit.extensions.restapi.ResourceNotFoundException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestModifyView;
import com.google.gerrit.extensions.restapi.RestReadView;
import com.google.gerrit.server.config.CacheResource;
import com.google.gerrit.server.config.ConfigResource;
import com.google.inject.Inject;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.util.List;
import org.kohsuke.args4j.Option;
import org.refdb.engine.Cache;
import org.refdb.gerrit.cache.CacheAdmin;
import org.refdb.gerrit.cache.CacheStat;
import org.refdb.gerrit.cache.CacheTools;

/** The REST endpoints for the persistent caches. Keys that are secrets are never told. */
final class CacheViews {
  private CacheViews() {}

  /** No input is needed. */
  static final class Nothing {}

  /** What {@code compact} freed. */
  record Compacted(long freedBytes) {}

  private static CacheTools tools(CacheResource cache) throws ResourceNotFoundException {
    return CacheAdmin.of(cache.getCache())
        .orElseThrow(() -> new ResourceNotFoundException(cache.getName() + " has no files of refdb's"));
  }

  /** {@code GET /config/server/refdb~caches}. */
  static final class AllStats extends ForViewers implements RestReadView<ConfigResource> {
    @Inject(optional = true)
    private CacheAdmin admin;

    @Override
    public Response<List<CacheStat>> apply(ConfigResource resource) throws ResourceNotFoundException {
      if (admin == null) {
        throw new ResourceNotFoundException("the persistent caches are not refdb's");
      }
      return Response.ok(admin.all().stream().map(CacheTools::stat).toList());
    }
  }

  /** {@code GET /config/server/caches/NAME/refdb~stat}. */
  static final class Stat extends ForViewers implements RestReadView<CacheResource> {
    @Override
    public Response<CacheStat> apply(CacheResource cache) throws ResourceNotFoundException {
      return Response.ok(tools(cache).stat());
    }
  }

  /** {@code POST /config/server/caches/NAME/refdb~verify}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Verify implements RestModifyView<CacheResource, Nothing> {
    @Override
    public Response<Cache.Verified> apply(CacheResource cache, Nothing input) throws ResourceNotFoundException {
      return Response.ok(tools(cache).verify());
    }
  }

  /** {@code POST /config/server/caches/NAME/refdb~compact}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Compact implements RestModifyView<CacheResource, Nothing> {
    @Override
    public Response<Compacted> apply(CacheResource cache, Nothing input) throws ResourceNotFoundException {
      return Response.ok(new Compacted(tools(cache).compact()));
    }
  }

  /** {@code GET /config/server/caches/NAME/refdb~top?n=COUNT&by=SIZE|USES}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Top implements RestReadView<CacheResource> {
    @Option(name = "-n", metaVar = "COUNT", usage = "how many")
    private int count = 20;

    @Option(name = "--by", usage = "SIZE or USES")
    private CacheTools.Order order = CacheTools.Order.SIZE;

    @Override
    public Response<List<CacheTools.TopEntry>> apply(CacheResource cache)
        throws ResourceNotFoundException, BadRequestException {
      try {
        return Response.ok(tools(cache).top(count, order));
      } catch (IllegalArgumentException e) {
        throw new BadRequestException(e.getMessage(), e);
      }
    }
  }

  /** {@code GET /config/server/caches/NAME/refdb~export}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Export implements RestReadView<CacheResource> {
    @Override
    public Response<BinaryResult> apply(CacheResource cache)
        throws ResourceNotFoundException, ResourceConflictException {
      CacheTools tools = tools(cache);
      if (tools.isSecret()) {
        throw new ResourceConflictException(tools.whySecret());
      }
      BinaryResult stream =
          new BinaryResult() {
            @Override
            public void writeTo(OutputStream to) {
              tools.exportTo(to);
            }
          };
      return Response.ok(stream.setContentType("application/octet-stream").setAttachmentName(tools.name() + ".export"));
    }
  }

  /** The body of {@code import}: an export. */
  static final class ImportInput {
    RawInput raw;
  }

  /** {@code POST /config/server/caches/NAME/refdb~import}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Import implements RestModifyView<CacheResource, ImportInput> {
    @Override
    public Response<Cache.Imported> apply(CacheResource cache, ImportInput input)
        throws ResourceNotFoundException, BadRequestException, IOException {
      CacheTools tools = tools(cache);
      if (input == null || input.raw == null) {
        throw new BadRequestException("send an export as application/octet-stream");
      }
      try (InputStream from = input.raw.getInputStream()) {
        return Response.ok(tools.importFrom(from));
      } catch (IllegalStateException | UncheckedIOException e) {
        throw new BadRequestException(e.getMessage(), e);
      }
    }
  }
}
