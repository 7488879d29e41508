"""Puts a file into a bucket with a sum that the server checks and keeps."""

import base64
import sys

import boto3
from botocore.config import Config

POLYNOMIALS = {"CRC32C": (0x82F63B78, 4), "CRC64NVME": (0x9A6C9329AC4BC9B5, 8)}

path, bucket, key, algorithm, *in_parts = sys.argv[1:]
with open(path, "rb") as file:
    data = file.read()
client = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))


def crc(polynomial: int, length: int) -> str:
    """The sum of what botocore computes only with a library of its own."""
    ones = (1 << 8 * length) - 1
    state = ones
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (polynomial if state & 1 else 0)
    return base64.b64encode((state ^ ones).to_bytes(length, "big")).decode()


if not in_parts:
    if algorithm in POLYNOMIALS:
        how = {"Checksum" + algorithm: crc(*POLYNOMIALS[algorithm])}
    else:
        how = {"ChecksumAlgorithm": algorithm}
    client.put_object(Bucket=bucket, Key=key, Body=data, **how)
    sys.exit()

kind, lengths = in_parts
upload = client.create_multipart_upload(
    Bucket=bucket, Key=key, ChecksumAlgorithm=algorithm, ChecksumType=kind
)["UploadId"]
about = {"Bucket": bucket, "Key": key, "UploadId": upload}
parts = []
for number, length in enumerate(map(int, lengths.split()), 1):
    part = client.upload_part(
        PartNumber=number,
        Body=data[:length],
        ChecksumAlgorithm=algorithm,
        **about,
    )
    data = data[length:]
    name = "Checksum" + algorithm
    parts.append({"PartNumber": number, "ETag": part["ETag"], name: part[name]})
client.complete_multipart_upload(MultipartUpload={"Parts": parts}, **about)
